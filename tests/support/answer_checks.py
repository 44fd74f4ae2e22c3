"""What every answer of the gateway must be, whatever the request: checked with openai's own types.

Each check raises AssertionError with what is wrong.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import httpx
from openai.types import Completion
from openai.types.audio import (
    Transcription,
    TranscriptionTextDeltaEvent,
    TranscriptionTextDoneEvent,
    TranscriptionVerbose,
)
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from support.generated_requests import Generated
from support.schema_checks import Document

REASONS = {"stop", "length", "tool_calls"}
_CHUNKS: Mapping[str, type[BaseModel]] = {
    "/v1/chat/completions": ChatCompletionChunk,
    "/v1/completions": Completion,
}
_FULL: Mapping[str, type[BaseModel]] = {
    "/v1/chat/completions": ChatCompletion,
    "/v1/completions": Completion,
}


def check_answer(
    request: Generated, answer: httpx.Response, document: Document, *, refuses_late: bool = False
) -> None:
    if answer.status_code != httpx.codes.OK:
        check_refusal(request, answer, document)
    elif answer.headers["content-type"].startswith("text/event-stream"):
        last = answer.text.removesuffix("\n\n").rpartition("data: ")[2]
        if refuses_late and last.startswith('{"error"'):
            assert json.loads(last)["error"]["type"] == "invalid_request_error"
        else:
            check_stream(request, answer.text)
    elif request.path.startswith("/v1/audio/"):
        check_transcript(request, answer)
    elif request.path == "/v1/responses":
        check_response(request.value, answer.json())
    else:
        check_full(request, answer.json())


def check_refusal(request: Generated, answer: httpx.Response, document: Document) -> None:
    """Check an error: its fields are OpenAI's, and it names a part that the request could have."""
    body = answer.json()
    assert set(body) == {"error"}
    error = body["error"]
    assert {"message", "type", "param", "code"} == set(error)
    assert isinstance(error["message"], str)
    assert 10 < len(error["message"]) < 2000
    assert isinstance(error["code"], str | None)
    if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
        assert int(answer.headers["retry-after"]) > 0
        return
    assert error["type"] == "invalid_request_error"
    param = error["param"]
    if param is not None:
        known = document.names(request.schema, param, request.value)
        # A name with points or brackets looks like a way through the body.
        names = request.value if isinstance(request.value, dict) else ()
        own = param in {name.encode(errors="replace").decode() for name in names}
        assert known or own, f"no part of the request: {param!r}"


def events_of(text: str) -> list[dict[str, Any]]:
    blocks = text.split("\n\n")
    assert blocks.pop() == ""
    lines = [one for one in blocks if not one.startswith(":")]
    assert lines.pop() == "data: [DONE]"
    assert all(one.startswith("data: ") and "\n" not in one for one in lines)
    events = [json.loads(one.removeprefix("data: ")) for one in lines]
    assert events
    assert all(
        (isinstance(one, dict) and "error" not in one) or one.get("object") for one in events
    )
    return events


def check_stream(request: Generated, text: str) -> None:
    assert request.value["stream"]
    events = events_of(text)
    if request.path.startswith("/v1/audio/"):
        check_transcript_stream(events)
    elif request.path == "/v1/responses":
        check_response_stream(request.value, events)
    else:
        _check_chunks(request, events)


def check_usage(usage: Mapping[str, Any]) -> None:
    prompt, completion = usage["prompt_tokens"], usage["completion_tokens"]
    assert prompt >= 1
    assert completion >= 0
    assert usage["total_tokens"] == prompt + completion
    details = usage.get("prompt_tokens_details") or {}
    assert all(0 <= one <= prompt for one in details.values())


def check_full(request: Generated, body: Mapping[str, Any]) -> None:
    value = request.value
    assert not value.get("stream")
    _validated(_FULL[request.path], body)
    assert body["model"] == value["model"]
    check_usage(body["usage"])
    choices = body["choices"]
    assert [one["index"] for one in choices] == [*range(_count(request))]
    most = _most_tokens(value)
    if most is not None:
        made = (value.get("n") or 1) * _prompts(value)
        assert body["usage"]["completion_tokens"] <= made * max(most, 0)
    if choices[0]["logprobs"] is not None and not _stops(value):
        scored = sum(map(_scored, choices))
        assert scored == body["usage"]["completion_tokens"]
    for choice in choices:
        assert choice["finish_reason"] in REASONS
        if "message" in choice:
            _check_message(value, choice["message"], choice["finish_reason"])
            _check_chat_scores(value, choice["logprobs"])
        else:
            _check_text(value, choice)


def _scored(choice: Mapping[str, Any]) -> int:
    scores = choice["logprobs"]
    return len(scores["content"] if "content" in scores else scores["tokens"])


def _validated(kind: type[BaseModel], body: Mapping[str, Any]) -> None:
    """Check a body with a type of openai's, which does not know of scores that are none."""
    content = json.loads(json.dumps(body))
    for choice in content["choices"] if kind is Completion else ():
        choice["finish_reason"] = choice["finish_reason"] or "stop"
        scores = choice.get("logprobs") or {}
        for name, none in (("token_logprobs", 0.0), ("top_logprobs", {})):
            scores[name] = [none if one is None else one for one in scores.get(name, ())]
    kind.model_validate_json(json.dumps(content), strict=True)


def _prompts(value: Mapping[str, Any]) -> int:
    prompt = value.get("prompt")
    return len(prompt) if isinstance(prompt, list) else 1


def _count(request: Generated) -> int:
    return (request.value.get("n") or 1) * _prompts(request.value)


def _most_tokens(value: Mapping[str, Any]) -> int | None:
    most = value.get("max_completion_tokens")
    found = value.get("max_tokens") if most is None else most
    return None if found is None else int(found)


def _stops(value: Mapping[str, Any]) -> Sequence[str]:
    stop = value.get("stop") or []
    return [stop] if isinstance(stop, str) else stop


def _check_message(value: Mapping[str, Any], message: Mapping[str, Any], reason: str) -> None:
    calls = message.get("tool_calls") or []
    assert calls or message["content"] is not None
    assert calls or reason != "tool_calls"
    assert not calls or (value.get("tools") and value.get("tool_choice") != "none")
    assert reason in {"tool_calls", "length"} or not calls
    assert len({one["id"] for one in calls}) == len(calls)
    assert len(calls) < 2 or value.get("parallel_tool_calls") is not False
    for call in calls if reason == "tool_calls" else ():
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
    for stop in _stops(value):
        assert stop not in (message["content"] or "")


def _check_chat_scores(value: Mapping[str, Any], scores: Mapping[str, Any] | None) -> None:
    assert bool(value.get("logprobs")) == (scores is not None)
    for one in () if scores is None else scores["content"]:
        assert len(one["top_logprobs"]) == (value.get("top_logprobs") or 0)
        assert one["logprob"] <= 0


def _check_text(value: Mapping[str, Any], choice: Mapping[str, Any]) -> None:
    scores = choice["logprobs"]
    _check_said(value, choice["index"], choice["text"])
    assert (value.get("logprobs") is not None) == (scores is not None)
    if scores is not None:
        lengths = {len(scores[one]) for one in scores}
        assert len(lengths) == 1
        assert scores["text_offset"] == sorted(scores["text_offset"])
        assert all(0 <= one <= len(choice["text"]) for one in scores["text_offset"])


def _check_said(value: Mapping[str, Any], index: int, text: str) -> None:
    """Check the text of a choice: what it begins with, and that no stop string is in it."""
    if not value.get("echo"):
        assert not any(stop in text for stop in _stops(value))
        return
    prompt = value["prompt"]
    if isinstance(prompt, list):
        prompt = prompt[index // (value.get("n") or 1)]
    assert text.startswith(prompt)


def _check_chunks(request: Generated, events: Sequence[Mapping[str, Any]]) -> None:
    value, kind = request.value, _CHUNKS[request.path]
    options = value.get("stream_options") or {}
    for event in events:
        _validated(kind, {**event, "usage": event.get("usage")})
    for name in ("id", "created", "model", "object"):
        assert len({event[name] for event in events}) == 1
    assert events[0]["model"] == value["model"]
    if options.get("include_usage"):
        *events, last = events
        assert not last["choices"]
        check_usage(last["usage"])
    said = options.get("include_usage") or options.get("continuous_usage_stats")
    assert all(("usage" in event) == bool(said) for event in events)
    if options.get("continuous_usage_stats"):
        for event in events:
            check_usage(event["usage"])
    assert all(len(event["choices"]) == 1 for event in events)
    choices = [event["choices"][0] for event in events]
    ends = Counter(one["index"] for one in choices if one["finish_reason"] is not None)
    assert ends == dict.fromkeys(range(_count(request)), 1)
    for index in ends:
        own = [one for one in choices if one["index"] == index]
        assert own[-1]["finish_reason"] in REASONS
        if request.path == "/v1/chat/completions":
            _check_deltas(value, own)
        else:
            _check_said(value, index, "".join(one["text"] for one in own))


def _check_deltas(value: Mapping[str, Any], chunks: Sequence[Mapping[str, Any]]) -> None:
    assert chunks[0]["delta"]["role"] == "assistant"
    assert all("role" not in one["delta"] for one in chunks[1:])
    calls: dict[int, dict[str, Any]] = {}
    content = ""
    for chunk in chunks:
        content += chunk["delta"].get("content") or ""
        for part in chunk["delta"].get("tool_calls", ()):
            if part["index"] not in calls:
                assert part["index"] == len(calls)
                calls[len(calls)] = {"id": part["id"], "function": {"arguments": ""}}
            calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
        if not value.get("logprobs"):
            assert chunk["logprobs"] is None
    message = {"content": content, "tool_calls": [*calls.values()]}
    _check_message(value, message, chunks[-1]["finish_reason"])


_CUE = r"\d\d:\d\d:\d\d{0}\d{{3}} --> \d\d:\d\d:\d\d{0}\d{{3}}\n.*\n"
_SRT = re.compile(r"(\d+\n" + _CUE.format(",") + r"\n)*")
_VTT = re.compile(r"WEBVTT\n\n(" + _CUE.format("[.]") + r"\n)*")


def check_transcript(request: Generated, answer: httpx.Response) -> None:
    form = request.value.get("response_format") or "json"  # a form has neither null nor []
    if form in {"text", "srt", "vtt"}:
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.text.endswith("\n") or form == "srt"
        wanted = {"srt": _SRT, "vtt": _VTT}.get(form)
        assert wanted is None or wanted.fullmatch(answer.text)
        return
    body = answer.json()
    assert body["usage"]["type"] == "duration"
    assert body["usage"]["seconds"] >= 1
    if form == "json":
        Transcription.model_validate_json(answer.text, strict=True)
        return
    _check_verbose(request, body)


def _check_verbose(request: Generated, body: dict[str, Any]) -> None:
    named = request.value.get("language")
    translated = request.path.endswith("/translations")
    assert body["task"] == ("translate" if translated else "transcribe")
    assert body["language"] == ("en" if translated else named or body["language"])
    assert body["language"]
    segments = body["segments"]
    assert [one["id"] for one in segments] == [*range(len(segments))]
    assert all(0 <= one["start"] <= one["end"] for one in segments)
    # Some engines give no logits, so there is none; openai's type does not know that.
    unknown = {"no_speech_prob": 0.0}
    known = [{**one, **(unknown if one["no_speech_prob"] is None else {})} for one in segments]
    TranscriptionVerbose.model_validate_json(json.dumps({**body, "segments": known}), strict=True)


def check_transcript_stream(events: Sequence[Mapping[str, Any]]) -> None:
    *deltas, last = events
    for one in deltas:
        TranscriptionTextDeltaEvent.model_validate_json(json.dumps(one), strict=True)
    TranscriptionTextDoneEvent.model_validate_json(json.dumps(last), strict=True)
    assert "".join(one["delta"] for one in deltas).strip() == last["text"]


_EVENT = TypeAdapter[Any](cast("Any", ResponseStreamEvent))
_ENDS = {"response.completed", "response.incomplete"}


def check_response(value: Mapping[str, Any], body: Mapping[str, Any]) -> None:
    """Check a response that is complete, or was cut."""
    Response.model_validate_json(json.dumps(body), strict=True)
    assert body["status"] in {"completed", "incomplete"}
    assert (body["incomplete_details"] is None) == (body["status"] == "completed")
    assert body["model"] == value["model"]
    assert body["output"]
    usage = body["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["input_tokens"] >= 1
    most = value.get("max_output_tokens")
    assert most is None or usage["output_tokens"] <= most
    ids = [item["id"] for item in body["output"]]
    assert len(set(ids)) == len(ids)
    calls = [item for item in body["output"] if item["type"] == "function_call"]
    assert len(calls) < 2 or value.get("parallel_tool_calls") is not False
    assert not calls or (value.get("tools") and value.get("tool_choice") != "none")
    for call in calls:
        if call["status"] == "completed":
            assert isinstance(json.loads(call["arguments"]), dict)


def check_response_stream(value: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> None:
    """Check events one by one, and that the deltas make the last event's response."""
    for event in events:
        _EVENT.validate_json(json.dumps(event), strict=True)
    assert [one["sequence_number"] for one in events] == [*range(len(events))]
    names = [one["type"] for one in events]
    assert names[:2] == ["response.created", "response.in_progress"]
    assert names[-1] in _ENDS
    assert _ENDS.isdisjoint(names[:-1])
    final = events[-1]["response"]
    assert names[-1] == f"response.{final['status']}"
    check_response(value, final)
    for place, item in enumerate(final["output"]):
        own = [one for one in events if one.get("output_index") == place]
        assert own[0]["type"] == "response.output_item.added"
        assert own[-1] == {**own[-1], "type": "response.output_item.done", "item": item}
        kind = "output_text" if item["type"] == "message" else "function_call_arguments"
        text = item["content"][0]["text"] if item["type"] == "message" else item["arguments"]
        deltas = [one["delta"] for one in own if one["type"] == f"response.{kind}.delta"]
        (done,) = [one for one in own if one["type"] == f"response.{kind}.done"]
        assert "".join(deltas) == text == done["text" if kind == "output_text" else "arguments"]
