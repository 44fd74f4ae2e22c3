"""Shapes of OpenAI's answers: the full completion, and the chunks of a stream."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.json_text import TextFrame
from mm_runtime.gateway.api.served_model import ServedModel


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request; image features count as prompt tokens."""

    prompt_tokens: int
    completion_tokens: int
    features: int = 0
    """Of images and videos, in the prompt or beside it."""

    seconds: float = 0.0
    """Length of the audio."""

    language: str = ""
    """Of the audio."""

    def to_wire(self) -> dict[str, object]:
        """Return OpenAI's usage object."""
        usage: dict[str, object] = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }
        if self.features:
            usage["prompt_tokens_details"] = {"image_tokens": self.features}
        return usage


Event = dict[str, object]


class Shapes(Protocol):
    """The objects that carry one answer."""

    def full(self, text: str, reason: FinishReason, usage: Usage) -> Event | str:
        """Return the plain answer: an object, or text that is sent as such."""

    def opening(self, *, with_usage: bool) -> list[Event]:
        """Return what a stream begins with before there is any text."""

    def piece(self, text: str, *, with_usage: bool) -> bytes:
        """Return the JSON of an event with some text; there is one for each token."""

    def ending(self, reason: FinishReason, usage: Usage, *, with_usage: bool) -> list[Event]:
        """Return the last events of a stream."""


class Completion(ABC):
    """One completion and the objects that carry it."""

    prefix: str
    """Of the answer's id."""

    full_object: str
    chunk_object: str

    def __init__(
        self, *, model: ServedModel, requested: str, request_id: str, created: int
    ) -> None:
        self._head = {
            "id": f"{self.prefix}-{request_id}",
            "created": created,
            "model": requested,
            "system_fingerprint": f"fp_{model.fingerprint[:10]}",
        }
        self._frames: dict[bool, TextFrame] = {}
        """Of chunks with text, without and with usage."""

    @abstractmethod
    def _full_choice(self, text: str, reason: FinishReason) -> dict[str, object]:
        """Return the one choice of a full answer."""

    @abstractmethod
    def _chunk_choice(self, text: str | None, reason: FinishReason | None) -> dict[str, object]:
        """Return the one choice of a chunk; text None: the chunk before any text."""

    def opening(self, *, with_usage: bool) -> list[Event]:
        """Return nothing: a stream begins with text."""
        del with_usage
        return []

    def full(self, text: str, reason: FinishReason, usage: Usage) -> Event:
        """Return the plain answer."""
        return {
            **self._head,
            "object": self.full_object,
            "choices": [{"index": 0, "logprobs": None, **self._full_choice(text, reason)}],
            "usage": usage.to_wire(),
        }

    def piece(self, text: str, *, with_usage: bool) -> bytes:
        """Return the JSON of a chunk with some text."""
        frame = self._frames.get(with_usage)
        if frame is None:
            frame = TextFrame(partial(self._chunk, with_usage=with_usage))
            self._frames[with_usage] = frame
        return frame.write(text)

    def ending(self, reason: FinishReason, usage: Usage, *, with_usage: bool) -> list[Event]:
        """Return the chunk with the reason, and the one with usage where it was requested."""
        last = self._chunk("", reason=reason, with_usage=with_usage)
        return [last, self._usage_chunk(usage)] if with_usage else [last]

    def _chunk(
        self, text: str | None, *, reason: FinishReason | None = None, with_usage: bool
    ) -> Event:
        """Return one event of a stream; `usage` is null when a last chunk will carry it."""
        choice = {"index": 0, "logprobs": None, **self._chunk_choice(text, reason)}
        chunk = {**self._head, "object": self.chunk_object, "choices": [choice]}
        return {**chunk, "usage": None} if with_usage else chunk

    def _usage_chunk(self, usage: Usage) -> Event:
        """Return the chunk after the last one: no choices, only usage."""
        return {
            **self._head,
            "object": self.chunk_object,
            "choices": [],
            "usage": usage.to_wire(),
        }


class ChatCompletion(Completion):
    """`chat.completion` and its chunks."""

    prefix = "chatcmpl"
    full_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def opening(self, *, with_usage: bool) -> list[Event]:
        """Return the chunk that names the role."""
        return [self._chunk(None, with_usage=with_usage)]

    def _full_choice(self, text: str, reason: FinishReason) -> dict[str, object]:
        message = {"role": "assistant", "content": text, "refusal": None}
        return {"message": message, "finish_reason": str(reason)}

    def _chunk_choice(self, text: str | None, reason: FinishReason | None) -> dict[str, object]:
        delta: dict[str, str] = {"role": "assistant", "content": ""}
        if text is not None:
            delta = {"content": text} if text else {}
        return {"delta": delta, "finish_reason": None if reason is None else str(reason)}


class TextCompletion(Completion):
    """`text_completion`; its chunks have the same name."""

    prefix = "cmpl"
    full_object = chunk_object = "text_completion"

    def _full_choice(self, text: str, reason: FinishReason) -> dict[str, object]:
        return {"text": text, "finish_reason": str(reason)}

    def _chunk_choice(self, text: str | None, reason: FinishReason | None) -> dict[str, object]:
        return {"text": text or "", "finish_reason": None if reason is None else str(reason)}
