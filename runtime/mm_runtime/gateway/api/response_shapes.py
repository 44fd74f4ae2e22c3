"""Shapes of OpenAI's responses: the full one, and the events of a stream."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from mm_edge.json_text import encode
from mm_runtime.gateway.api.completions import Answer, Event, Usage
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.responses import ResponsesChat
from mm_runtime.gateway.api.scores import TokenScore
from mm_runtime.gateway.api.served_model import ServedModel
from mm_runtime.gateway.api.tool_reader import CallArguments, CallBegan, CallReader, Part, Said


class ResponseAnswer:
    """One response and the objects that carry it: items, one after the other."""

    def __init__(
        self, request: ResponsesChat, *, model: ServedModel, request_id: str, created: int
    ) -> None:
        self._original = request.original
        self._model = model
        self._id = request_id
        self._created = created
        self._dialect = model.dialect if request.offered else None
        self._reader = (
            None if self._dialect is None else CallReader(self._dialect, most=request.most_calls)
        )
        self._items: list[dict[str, Any]] = []
        """The last one may be open."""

        self._open = False
        self._reason = FinishReason.STOP
        self._sequence = 0

    def full(self, answers: Sequence[Answer], usage: Usage) -> Event:
        self._push(answers[0].text)
        self._end(answers[0].reason)
        return self._response(self._status, usage)

    def opening(self, usage: Usage) -> list[Event]:
        del usage
        return [
            self._event(name, response=self._response("in_progress", None))
            for name in ("response.created", "response.in_progress")
        ]

    def pieces(
        self, text: str, usage: Usage | None, index: int = 0, scores: Sequence[TokenScore] = ()
    ) -> list[bytes]:
        del usage, index, scores
        return [encode(event) for event in self._push(text)]

    def ended(self, index: int, reason: FinishReason, usage: Usage) -> list[Event]:
        del index, usage
        return self._end(reason)

    def ending(self, usage: Usage) -> list[Event]:
        return [
            self._event(f"response.{self._status}", response=self._response(self._status, usage))
        ]

    @property
    def _status(self) -> str:
        return "incomplete" if self._reason is FinishReason.LENGTH else "completed"

    def _push(self, text: str) -> list[Event]:
        parts: Sequence[Part] = [Said(text)] if self._reader is None else self._reader.push(text)
        return [event for part in parts for event in self._events(part)]

    def _end(self, reason: FinishReason) -> list[Event]:
        self._reason = reason
        parts = [] if self._reader is None else self._reader.end()
        if not self._items and not parts:
            parts = [Said("")]
        return [*(event for part in parts for event in self._events(part)), *self._close()]

    def _events(self, part: Part) -> list[Event]:
        match part:
            case Said():
                return [*self._message(), self._delta("output_text", part.text)]
            case CallBegan():
                return [*self._close(), *self._call(part)]
            case CallArguments():
                return [self._delta("function_call_arguments", part.text)]

    def _message(self) -> list[Event]:
        if self._open and self._items[-1]["type"] == "message":
            return []
        closed = self._close()
        content = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        item = {"type": "message", "role": "assistant", "content": [content]}
        added = self._add("msg", item)
        part = self._event("response.content_part.added", **self._place(), part=dict(content))
        return [*closed, added, part]

    def _call(self, part: CallBegan) -> list[Event]:
        assert self._dialect is not None  # noqa: S101  # else there are no calls
        call_id = self._dialect.call_id(self._digest(f"call {part.index}"))
        item = {"type": "function_call", "call_id": call_id, "name": part.name, "arguments": ""}
        return [self._add("fc", item)]

    def _add(self, prefix: str, item: dict[str, Any]) -> Event:
        item_id = f"{prefix}_{self._digest(str(len(self._items)))[:32]}"
        self._items.append({"id": item_id, "status": "in_progress", **item})
        self._open = True
        shown = dict(self._items[-1])
        if "content" in shown:
            shown["content"] = []
        at = len(self._items) - 1
        return self._event("response.output_item.added", output_index=at, item=shown)

    def _delta(self, kind: str, text: str) -> Event:
        item = self._items[-1]
        if kind == "output_text":
            item["content"][0]["text"] += text
            return self._event(
                "response.output_text.delta", **self._place(), delta=text, logprobs=[]
            )
        item["arguments"] += text
        at = {"item_id": item["id"], "output_index": len(self._items) - 1}
        return self._event("response.function_call_arguments.delta", **at, delta=text)

    def _close(self) -> list[Event]:
        if not self._open:
            return []
        self._open = False
        item, at = self._items[-1], len(self._items) - 1
        item["status"] = self._status
        if item["type"] == "function_call":
            given = {"item_id": item["id"], "output_index": at, "name": item["name"]}
            name = "response.function_call_arguments.done"
            ended = [self._event(name, **given, arguments=item["arguments"])]
        else:
            part, place = item["content"][0], self._place()
            text = self._event("response.output_text.done", **place, text=part["text"], logprobs=[])
            ended = [text, self._event("response.content_part.done", **place, part=part)]
        return [*ended, self._event("response.output_item.done", output_index=at, item=item)]

    def _place(self) -> dict[str, object]:
        at = len(self._items) - 1
        return {"item_id": self._items[-1]["id"], "output_index": at, "content_index": 0}

    def _event(self, kind: str, **more: object) -> Event:
        event: Event = {"type": kind, "sequence_number": self._sequence, **more}
        self._sequence += 1
        return event

    def _digest(self, of: str) -> str:
        return sha256(f"{self._id} {of}".encode()).hexdigest()

    def _response(self, status: str, usage: Usage | None) -> Event:
        original = self._original
        wanted = original.model_dump(by_alias=True, include={"tools", "tool_choice", "text"})
        text = wanted["text"] or {}
        incomplete = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return {
            "id": f"resp_{self._id}",
            "object": "response",
            "created_at": self._created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": incomplete,
            "instructions": original.instructions,
            "max_output_tokens": original.max_output_tokens,
            "metadata": original.metadata or {},
            "model": original.model,
            "output": self._items if usage is not None else [],
            "parallel_tool_calls": original.parallel_tool_calls is not False,
            "previous_response_id": None,
            "store": False,
            "temperature": self._or(original.temperature, self._model.temperature),
            "text": {"format": text.get("format") or {"type": "text"}},
            "tool_choice": wanted["tool_choice"] or "auto",
            "tools": wanted["tools"] or [],
            "top_p": self._or(original.top_p, self._model.top_p),
            "truncation": "disabled",
            "usage": None if usage is None else _usage(usage),
            "user": original.user,
        }

    @staticmethod
    def _or(value: float | None, default: float) -> float:
        return default if value is None else value


def _usage(usage: Usage) -> dict[str, object]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached or 0, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
