"""Shapes of OpenAI's answers: the whole completion, and the chunks of a stream."""

from dataclasses import dataclass

from mm_runtime.gateway.dataplane import FinishReason, ServedModel


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


class Completion:
    """One answer and the objects that carry it."""

    def __init__(self, *, model: ServedModel, request_id: str, created: int) -> None:
        self._head = {
            "id": f"chatcmpl-{request_id}",
            "created": created,
            "model": model.name,
            "system_fingerprint": f"fp_{model.fingerprint[:10]}",
        }

    def whole(self, text: str, reason: FinishReason, usage: Usage) -> dict[str, object]:
        """Return a `chat.completion`."""
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "logprobs": None,
            "finish_reason": str(reason),
        }
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": usage.to_wire(),
        }

    def chunk(
        self,
        delta: dict[str, str],
        *,
        reason: FinishReason | None = None,
        with_usage: bool,
    ) -> dict[str, object]:
        """Return a `chat.completion.chunk`; `usage` is null when a last chunk will carry it."""
        choice = {
            "index": 0,
            "delta": delta,
            "logprobs": None,
            "finish_reason": None if reason is None else str(reason),
        }
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": [choice]}
        return {**chunk, "usage": None} if with_usage else chunk

    def usage_chunk(self, usage: Usage) -> dict[str, object]:
        """Return the chunk after the last one: no choices, only usage."""
        return {
            **self._head,
            "object": "chat.completion.chunk",
            "choices": [],
            "usage": usage.to_wire(),
        }
