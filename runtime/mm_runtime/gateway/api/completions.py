"""Shapes of OpenAI's answers: the full completion, and the chunks of a stream."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from mm_edge.json_text import encode
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.scores import TokenScore, of_chat, of_text
from mm_runtime.gateway.api.segments import Segment
from mm_runtime.gateway.api.served_model import ServedModel

_MARK: Final = "\0"
"""A placeholder for the text of a frame; nothing behind it is one."""


class TextFrame:
    """The JSON of an object of which one string changes, written once around that string.

    A stream has an event for each token, and nothing but the text differs.
    """

    def __init__(self, body_of: Callable[[str], object]) -> None:
        self._before, _, self._after = encode(body_of(_MARK)).rpartition(encode(_MARK))

    def write(self, text: str) -> bytes:
        return self._before + encode(text) + self._after


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request; image features count as prompt tokens."""

    prompt_tokens: int
    completion_tokens: int
    features: int = 0

    cached: int | None = None
    """Tokens of the prompt that were known from earlier requests. None: nothing is kept."""

    seconds: float = 0.0
    """Length of the audio."""

    language: str = ""

    segments: tuple[Segment, ...] | None = None
    """Segments of audio, where times were requested."""

    def to_wire(self) -> dict[str, object]:
        """Return OpenAI's usage object."""
        usage: dict[str, object] = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }
        details: dict[str, object] = {}
        if self.features:
            details["image_tokens"] = self.features
        if self.cached is not None:
            details["cached_tokens"] = self.cached
        return usage | ({"prompt_tokens_details": details} if details else {})


Event = dict[str, object]


@dataclass(frozen=True, slots=True)
class StreamForm:
    """Where a stream says its usage: in a chunk of its own, in every chunk, or nowhere."""

    with_usage: bool = False
    continuous: bool = False

    @property
    def says_usage(self) -> bool:
        return self.with_usage or self.continuous


@dataclass(frozen=True, slots=True)
class Answer:
    """One complete choice."""

    text: str
    reason: FinishReason
    scores: tuple[TokenScore, ...] = ()


class Shapes(Protocol):
    """The objects that carry the answers to one request."""

    def full(self, answers: Sequence[Answer], usage: Usage) -> Event | str:
        """Return the plain answer: an object, or text that is sent as such."""

    def opening(self, usage: Usage) -> list[Event]:
        """Return what a stream begins with before there is any text."""

    def pieces(
        self, text: str, usage: Usage | None, index: int = 0, scores: Sequence[TokenScore] = ()
    ) -> list[bytes]:
        """Return the JSON of the events with some text; most often there is one for each token.

        `text`: empty only where there are scores. `usage`: of a stream that says it in every chunk.
        """

    def ended(self, index: int, reason: FinishReason, usage: Usage) -> list[Event]:
        """Return what says that a choice is complete."""

    def ending(self, usage: Usage) -> list[Event]:
        """Return the last events of a stream."""


class Completion(ABC):
    """One completion and the objects that carry it."""

    prefix: str

    full_object: str
    chunk_object: str

    def __init__(
        self,
        *,
        model: ServedModel,
        requested: str,
        request_id: str,
        created: int,
        form: StreamForm,
        choices: int = 1,
        likeliest: int | None = None,
    ) -> None:
        """Begin an answer; `created` in seconds since 1970, `likeliest` None: no scores."""
        self._head = {
            "id": f"{self.prefix}-{request_id}",
            "created": created,
            "model": requested,
            "system_fingerprint": f"fp_{model.fingerprint[:10]}",
        }
        self._form = form
        self._choices = choices
        self._likeliest = likeliest
        self._frames: dict[int, TextFrame] = {}
        """Choice -> its chunks with text and neither usage nor scores."""

    @abstractmethod
    def _full_choice(self, index: int, text: str, reason: FinishReason) -> dict[str, object]:
        """Return a choice of a full answer."""

    @abstractmethod
    def _chunk_choice(self, text: str | None, reason: FinishReason | None) -> dict[str, object]:
        """Return the choice of a chunk; text None: the chunk before any text."""

    @abstractmethod
    def _written(self, scores: Sequence[TokenScore]) -> dict[str, object]:
        """Return the scores of some text of a choice."""

    def opening(self, usage: Usage) -> list[Event]:
        """Return nothing: a stream begins with text."""
        del usage
        return []

    def full(self, answers: Sequence[Answer], usage: Usage) -> Event:
        """Return the plain answer."""
        choices = [
            {
                "index": index,
                "logprobs": self._logprobs(answer.scores),
                **self._full_choice(index, answer.text, answer.reason),
            }
            for index, answer in enumerate(answers)
        ]
        return {
            **self._head,
            "object": self.full_object,
            "choices": choices,
            "usage": usage.to_wire(),
        }

    def pieces(
        self, text: str, usage: Usage | None, index: int = 0, scores: Sequence[TokenScore] = ()
    ) -> list[bytes]:
        if usage is not None or self._likeliest is not None:
            logprobs = self._logprobs(scores)
            return [encode(self._chunk(text, usage, index=index, logprobs=logprobs))]
        frame = self._frames.get(index)
        if frame is None:
            frame = self._frames[index] = TextFrame(partial(self._chunk, index=index))
        return [frame.write(text)]

    def ended(self, index: int, reason: FinishReason, usage: Usage) -> list[Event]:
        return [self._chunk("", usage, index=index, reason=reason)]

    def ending(self, usage: Usage) -> list[Event]:
        """Return the chunk with the usage, where it was requested."""
        chunk = {**self._head, "object": self.chunk_object, "choices": []}
        return [{**chunk, "usage": usage.to_wire()}] if self._form.with_usage else []

    def _logprobs(self, scores: Sequence[TokenScore]) -> dict[str, object] | None:
        return None if self._likeliest is None else self._written(scores)

    def _chunk(
        self,
        text: str | None,
        usage: Usage | None = None,
        *,
        index: int = 0,
        reason: FinishReason | None = None,
        logprobs: dict[str, object] | None = None,
    ) -> Event:
        choice = {"index": index, "logprobs": logprobs, **self._chunk_choice(text, reason)}
        return self._wrapped(choice, usage)

    def _wrapped(self, choice: dict[str, object], usage: Usage | None) -> Event:
        chunk = {**self._head, "object": self.chunk_object, "choices": [choice]}
        if not self._form.says_usage:
            return chunk
        shown = usage if self._form.continuous else None
        return {**chunk, "usage": None if shown is None else shown.to_wire()}


class ChatCompletion(Completion):
    """`chat.completion` and its chunks."""

    prefix = "chatcmpl"
    full_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def opening(self, usage: Usage) -> list[Event]:
        return [self._chunk(None, usage, index=index) for index in range(self._choices)]

    def _written(self, scores: Sequence[TokenScore]) -> dict[str, object]:
        return of_chat(scores)

    def _full_choice(self, index: int, text: str, reason: FinishReason) -> dict[str, object]:
        del index
        message = {"role": "assistant", "content": text, "refusal": None}
        return {"message": message, "finish_reason": str(reason)}

    def _chunk_choice(self, text: str | None, reason: FinishReason | None) -> dict[str, object]:
        delta: dict[str, str] = {"role": "assistant", "content": ""}
        if text is not None:
            delta = {"content": text}
        return {"delta": delta, "finish_reason": None if reason is None else str(reason)}


class TextCompletion(Completion):
    """`text_completion`; its chunks have the same name."""

    prefix = "cmpl"
    full_object = chunk_object = "text_completion"

    def _written(self, scores: Sequence[TokenScore]) -> dict[str, object]:
        return of_text(scores)

    def _full_choice(self, index: int, text: str, reason: FinishReason) -> dict[str, object]:
        del index
        return {"text": text, "finish_reason": str(reason)}

    def _chunk_choice(self, text: str | None, reason: FinishReason | None) -> dict[str, object]:
        return {"text": text or "", "finish_reason": None if reason is None else str(reason)}


class Answers:
    """What has come of each choice of all prompts, those of the first prompt first."""

    def __init__(self, choices: int) -> None:
        self._texts: list[list[str]] = [[] for _ in range(choices)]
        self._scores: list[list[TokenScore]] = [[] for _ in range(choices)]
        self._reasons = [FinishReason.STOP] * choices

    def add(self, choice: int, text: str, scores: Sequence[TokenScore]) -> None:
        self._texts[choice].append(text)
        self._scores[choice] += scores

    def end(self, choice: int, reason: FinishReason) -> None:
        self._reasons[choice] = reason

    @property
    def complete(self) -> list[Answer]:
        return [
            Answer("".join(texts), reason, tuple(scores))
            for texts, reason, scores in zip(self._texts, self._reasons, self._scores, strict=True)
        ]
