"""What a row of the table is: a request, and what this gateway must make of it.

The requests are those of vLLM's public tests of its API by behaviour, in terms of this project:
none of vLLM's code or text is here. A row says what the gateway does, and where that is something
else than vLLM does, why.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from support.vllm_requests.recordings import SHORT

CHAT, TEXT, RESPONSE = "/v1/chat/completions", "/v1/completions", "/v1/responses"
TRANSCRIPTION, TRANSLATION = "/v1/audio/transcriptions", "/v1/audio/translations"
QUESTION = "Will it rain?"
MESSAGES = [{"role": "user", "content": QUESTION}]
PLAIN: Mapping[str, Mapping[str, Any]] = {
    CHAT: {"messages": MESSAGES, "max_tokens": 6},
    TEXT: {"prompt": QUESTION, "max_tokens": 6},
    RESPONSE: {"input": QUESTION, "max_output_tokens": 6},
    TRANSCRIPTION: {"file": SHORT},
    TRANSLATION: {"file": SHORT},
}
"""Path -> the least that a request has; a row's fields stand beside it, or instead."""

Outcome = Literal["acts", "refused", "differs"]
Check = Callable[..., bool]
"""(answer) or (answer, the answer to `beside`) -> whether it is what it should be."""


@dataclass(frozen=True)
class Refused:
    """An error in OpenAI's form.

    Attributes:
        param: `error.param`; None: no single parameter is wrong.
        says: a part of the message.
    """

    param: str | None
    status: int = 400
    code: str | None = None
    says: str = ""


@dataclass(frozen=True)
class Row:
    """One behaviour.

    Attributes:
        sets: files of vLLM's tests that request it, below `tests/`; empty: the types of its API
            say it, and no test of the files that were read.
        path: of the request.
        name: what is so, as the page says it.
        fields: of the body, beside those of `PLAIN`; of one that leaves out a field, None.
        here: an answer with a property, or a refusal.
        beside: fields of a second request, whose answer `here` compares with.
        differs: why vLLM's answer is another one; empty: it is the same.
        raw: the body as it is sent, where it is no object of JSON.
        method: of HTTP; for routes that clients do not know plain HTTP is sent.
        headers: of plain HTTP.
        without: fields of `PLAIN` that are left out.
    """

    sets: tuple[str, ...]
    path: str
    name: str
    here: Check | Refused
    fields: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, Any] | None = None
    differs: str = ""
    raw: bytes | None = None
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        if self.differs:
            return "differs"
        return "refused" if isinstance(self.here, Refused) else "acts"

    def body(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        plain = (
            {"model": "tiny", "temperature": 0, **PLAIN[self.path]} if self.path in PLAIN else {}
        )
        body = {**plain, **fields}
        return {name: value for name, value in body.items() if name not in self.without}


def text_of(answer: Any, index: int = 0) -> str:
    if isinstance(answer, list):
        return "".join(_piece(one) for one in chunks_of(answer, index))
    return _piece(answer["choices"][index])


def chunks_of(chunks: list[Any], index: int = 0) -> list[Any]:
    return [one for chunk in chunks for one in chunk["choices"] if one["index"] == index]


def reasons_of(chunks: list[Any]) -> list[str]:
    found = [one["finish_reason"] for chunk in chunks for one in chunk["choices"]]
    return [one for one in found if one]


def says(text: str) -> Check:
    return lambda answer: text_of(answer) == text


def same(answer: Any, other: Any) -> bool:
    return text_of(answer) == text_of(other)


def choices(count: int) -> Check:
    return lambda answer: [one["index"] for one in answer["choices"]] == list(range(count))


def tokens(count: int, reason: str = "length") -> Check:
    return lambda answer: (
        answer["usage"]["completion_tokens"] == count
        and answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + count
        and answer["choices"][0]["finish_reason"] == reason
    )


def _piece(choice: Any) -> str:
    if "text" in choice:
        return str(choice["text"])
    return str((choice.get("message") or choice["delta"]).get("content") or "")
