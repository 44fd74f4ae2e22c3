"""Shapes of chat completions whose answers may call tools."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from mm_edge.json_text import encode
from mm_runtime.gateway.api.completions import ChatCompletion, Event, Usage
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.scores import TokenScore
from mm_runtime.gateway.api.tool_dialects import ToolDialect
from mm_runtime.gateway.api.tool_reader import CallArguments, CallBegan, CallReader, Part, Said


class CallingCompletion(ChatCompletion):
    """`chat.completion` of a request with tools, and its chunks."""

    def __init__(
        self, *, dialect: ToolDialect, most: int | None, request_id: str, **shape: Any
    ) -> None:
        """Begin an answer; calls of one choice after the first `most` are left out."""
        super().__init__(request_id=request_id, **shape)
        self._dialect = dialect
        self._most = most
        self._request_id = request_id
        self._readers: dict[int, CallReader] = {}

    def pieces(
        self, text: str, usage: Usage | None, index: int = 0, scores: Sequence[TokenScore] = ()
    ) -> list[bytes]:
        """Return the JSON of what some text completes; its scores go with the first chunk."""
        deltas = [self._delta(index, part) for part in self._reader(index).push(text)]
        if scores and not deltas:
            deltas = [{"content": ""}]
        return [
            encode(self._event(index, delta, usage, () if place else scores))
            for place, delta in enumerate(deltas)
        ]

    def ended(self, index: int, reason: FinishReason, usage: Usage) -> list[Event]:
        """Return what was held back, and the chunk with the reason."""
        reader = self._reader(index)
        held = [self._event(index, self._delta(index, part), usage) for part in reader.end()]
        return [*held, *super().ended(index, _reason_of(reason, reader.calls), usage)]

    def _full_choice(self, index: int, text: str, reason: FinishReason) -> dict[str, object]:
        reader = self._new_reader()
        content, calls = "", list[dict[str, Any]]()
        for part in (*reader.push(text), *reader.end()):
            match part:
                case Said():
                    content += part.text
                case CallBegan():
                    calls.append(self._call(index, part))
                case CallArguments():
                    calls[part.index]["function"]["arguments"] += part.text
        message: dict[str, object] = {
            "role": "assistant",
            "content": content if content.strip() or not calls else None,
            "refusal": None,
        }
        if calls:
            message["tool_calls"] = calls
        return {"message": message, "finish_reason": str(_reason_of(reason, len(calls)))}

    def _reader(self, index: int) -> CallReader:
        if index not in self._readers:
            self._readers[index] = self._new_reader()
        return self._readers[index]

    def _new_reader(self) -> CallReader:
        return CallReader(self._dialect, most=self._most)

    def _call(self, choice: int, part: CallBegan) -> dict[str, Any]:
        """Return a call; its id follows from request, choice and place."""
        digest = sha256(f"{self._request_id} {choice} {part.index}".encode()).hexdigest()
        return {
            "id": self._dialect.call_id(digest),
            "type": "function",
            "function": {"name": part.name, "arguments": ""},
        }

    def _delta(self, choice: int, part: Part) -> dict[str, object]:
        match part:
            case Said():
                return {"content": part.text}
            case CallBegan():
                return {"tool_calls": [{"index": part.index, **self._call(choice, part)}]}
            case CallArguments():
                more = {"index": part.index, "function": {"arguments": part.text}}
                return {"tool_calls": [more]}

    def _event(
        self,
        index: int,
        delta: dict[str, object],
        usage: Usage | None,
        scores: Sequence[TokenScore] = (),
    ) -> Event:
        logprobs = self._logprobs(scores)
        choice: dict[str, object] = {
            "index": index,
            "logprobs": logprobs,
            "delta": delta,
            "finish_reason": None,
        }
        return self._wrapped(choice, usage)


def _reason_of(reason: FinishReason, calls: int) -> FinishReason:
    return FinishReason.TOOL_CALLS if calls and reason is FinishReason.STOP else reason
