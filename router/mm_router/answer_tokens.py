"""PURE: an answer -> the tokens that it and its prompt had: what it says itself, else an estimate.

Complete answers and streams of `/v1/responses` say it; other streams where a client wants
`include_usage`. Without it the router's estimate of the prompt counts, and the text of the answer.
"""

import math
from collections.abc import Iterator
from typing import Any

import orjson

from mm_router.demand import BYTES_PER_TOKEN

_PARSED_BYTES = 1 << 20
"""Length of a complete answer, in 3 ms; a longer one has scores of tokens, and counts by its
length."""

_EVENT_END = b"\n\n"
_DATA = b"data: "


class AnswerTokens:
    """Counts the tokens of one answer; those of its prompt are an estimate."""

    def __init__(self, prompt: int) -> None:
        self._counted = prompt
        self._stated: int | None = None

    @property
    def used(self) -> int:
        return self._counted if self._stated is None else self._stated

    def take_complete(self, content: bytes) -> None:
        """Take an answer that is no stream."""
        answer = _parsed(content) if len(content) <= _PARSED_BYTES else None
        self._stated = _stated(answer)
        self._counted += _tokens(len(content))

    def take_events(self, events: bytes) -> None:
        """Take complete events of a stream, or a part of one that is too long to be held."""
        for event in events.split(_EVENT_END):
            if event.startswith(_DATA):
                self._take(_parsed(event.removeprefix(_DATA)))

    def _take(self, event: dict[str, Any]) -> None:
        stated = _stated(event)
        if stated is not None:
            self._stated = stated
        length = sum(len(text.encode(errors="replace")) for text in _texts(event))
        self._counted += _tokens(length)


def _tokens(length: int) -> int:
    return math.ceil(length / BYTES_PER_TOKEN)


def _parsed(content: bytes) -> dict[str, Any]:
    """Return a JSON object; an empty one for anything else: it says nothing of tokens."""
    try:
        parsed: Any = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _stated(answer: dict[str, Any] | None) -> int | None:
    """Return the tokens that an answer or an event says; None: it says nothing."""
    if answer is None:
        return None
    response = answer.get("response")
    usage = answer.get("usage") or (response.get("usage") if isinstance(response, dict) else None)
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if isinstance(total, int) and total >= 0 else None


def _texts(event: dict[str, Any]) -> Iterator[str]:
    """Yield what an event adds to answers: of chats, completions, responses, transcriptions."""
    choices = event.get("choices")
    for choice in choices if isinstance(choices, list) else [event]:
        if isinstance(choice, dict):
            yield from _added(choice)


def _added(choice: dict[str, Any]) -> Iterator[str]:
    delta = choice.get("delta")
    if isinstance(delta, str):
        yield delta
    elif isinstance(delta, dict):
        yield from (one for name, one in delta.items() if name != "role" and isinstance(one, str))
        yield from _arguments(delta.get("tool_calls"))
    elif isinstance(text := choice.get("text"), str) and "type" not in choice:
        yield text


def _arguments(calls: Any) -> Iterator[str]:
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if isinstance(arguments, str):
            yield arguments
