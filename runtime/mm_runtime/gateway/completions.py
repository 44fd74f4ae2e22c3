"""Shapes of OpenAI's answers: the whole completion, and the chunks of a stream."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from mm_runtime.gateway.dataplane import ServedModel
from mm_runtime.gateway.engine import FinishReason


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request; image features count as prompt tokens."""

    prompt_tokens: int
    completion_tokens: int

    def to_wire(self) -> dict[str, int]:
        """Return OpenAI's usage object."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }


class Completion(ABC):
    """One answer and the objects that carry it."""

    prefix: str
    """Of the answer's id."""

    whole_object: str
    chunk_object: str

    def __init__(self, *, model: ServedModel, request_id: str, created: int) -> None:
        self._head = {
            "id": f"{self.prefix}-{request_id}",
            "created": created,
            "model": model.name,
            "system_fingerprint": f"fp_{model.fingerprint[:10]}",
        }

    @abstractmethod
    def _whole_choice(self, text: str, reason: FinishReason) -> dict[str, object]:
        """Return the one choice of a whole answer."""

    @abstractmethod
    def _chunk_choice(self, text: str | None, reason: FinishReason | None) -> dict[str, object]:
        """Return the one choice of a chunk; text None: the chunk before any text."""

    @property
    def opens(self) -> bool:
        """Say whether a stream begins with a chunk of its own."""
        return False

    def whole(self, text: str, reason: FinishReason, usage: Usage) -> dict[str, object]:
        """Return the plain answer."""
        return {
            **self._head,
            "object": self.whole_object,
            "choices": [{"index": 0, "logprobs": None, **self._whole_choice(text, reason)}],
            "usage": usage.to_wire(),
        }

    def chunk(
        self, text: str | None, *, reason: FinishReason | None = None, with_usage: bool
    ) -> dict[str, object]:
        """Return one event of a stream; `usage` is null when a last chunk will carry it."""
        choice = {"index": 0, "logprobs": None, **self._chunk_choice(text, reason)}
        chunk = {**self._head, "object": self.chunk_object, "choices": [choice]}
        return {**chunk, "usage": None} if with_usage else chunk

    def usage_chunk(self, usage: Usage) -> dict[str, object]:
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
    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    @property
    def opens(self) -> bool:
        """The first chunk names the role."""
        return True

    def _whole_choice(self, text: str, reason: FinishReason) -> dict[str, object]:
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
    whole_object = chunk_object = "text_completion"

    def _whole_choice(self, text: str, reason: FinishReason) -> dict[str, object]:
        return {"text": text, "finish_reason": str(reason)}

    def _chunk_choice(self, text: str | None, reason: FinishReason | None) -> dict[str, object]:
        return {"text": text or "", "finish_reason": None if reason is None else str(reason)}
