"""One answer in two forms: what comes at once, and what the events of its stream make together."""

from collections.abc import Mapping, Sequence
from typing import Any

Value = dict[str, Any]


def twin_of(path: str, value: Mapping[str, Any]) -> Value | None:
    """Return the request for a stream of what a request wants at once; None: there is no stream."""
    if value.get("stream"):
        return None
    twin = {**value, "stream": True}
    if path.startswith("/v1/audio/"):
        forms = {"json", "text", None}
        return twin if value.get("response_format") in forms else None
    if path != "/v1/responses":
        twin["stream_options"] = {"include_usage": True}
    return twin


def of_full(path: str, answer: str, body: Mapping[str, Any] | None) -> object:
    """Return what an answer says.

    Args:
        path: of the request.
        answer: its text.
        body: its JSON; None: it is plain text.
    """
    if path.startswith("/v1/audio/"):
        return (answer if body is None else str(body["text"])).strip()
    assert body is not None
    if path == "/v1/responses":
        return _response(body)
    of_choice = _message if path == "/v1/chat/completions" else _text
    return [of_choice(one) for one in body["choices"]], body["usage"]


def of_stream(path: str, events: Sequence[Mapping[str, Any]]) -> object:
    """Return what the events of a stream say together."""
    if path.startswith("/v1/audio/"):
        return events[-1]["text"]
    if path == "/v1/responses":
        return _response(events[-1]["response"])
    usage = events[-1]["usage"]
    chunks = [event["choices"][0] for event in events[:-1]]
    choices = [
        [one for one in chunks if one["index"] == index]
        for index in range(1 + max(one["index"] for one in chunks))
    ]
    joined = _joined_message if path == "/v1/chat/completions" else _joined_text
    return [joined(one) for one in choices], usage


def _response(body: Mapping[str, Any]) -> object:
    items = [
        (one["status"], one.get("name"), one.get("arguments"))
        if one["type"] == "function_call"
        else (one["status"], one["content"][0]["text"])
        for one in body["output"]
    ]
    return items, body["status"], body["usage"]


def _message(choice: Mapping[str, Any]) -> Value:
    message, scores = choice["message"], choice["logprobs"]
    called = [one["function"] for one in message.get("tool_calls", ())]
    return {
        "content": message["content"] or "",
        "calls": [(one["name"], one["arguments"]) for one in called],
        "reason": choice["finish_reason"],
        "scores": (scores or {}).get("content") or None,
    }


def _joined_message(chunks: Sequence[Mapping[str, Any]]) -> Value:
    content = "".join(one["delta"].get("content") or "" for one in chunks)
    calls: list[list[str]] = []
    for part in (part for one in chunks for part in one["delta"].get("tool_calls", ())):
        if part["index"] == len(calls):
            calls.append([part["function"]["name"], ""])
        calls[part["index"]][1] += part["function"]["arguments"]
    scored = [one["logprobs"] for one in chunks if one["logprobs"] is not None]
    return {
        "content": content if content.strip() or not calls else "",
        "calls": [(name, arguments) for name, arguments in calls],
        "reason": chunks[-1]["finish_reason"],
        "scores": [score for one in scored for score in one["content"]] or None,
    }


def _text(choice: Mapping[str, Any]) -> Value:
    scores = choice["logprobs"]
    if scores is not None and not scores["tokens"]:
        scores = None  # no chunk says that there are none
    return {"text": choice["text"], "reason": choice["finish_reason"], "scores": scores}


def _joined_text(chunks: Sequence[Mapping[str, Any]]) -> Value:
    scored = [one["logprobs"] for one in chunks if one["logprobs"] is not None]
    names = [*scored[0]] if scored else []
    scores = {name: [one for part in scored for one in part[name]] for name in names} or None
    text = "".join(one["text"] for one in chunks)
    return {"text": text, "reason": chunks[-1]["finish_reason"], "scores": scores}
