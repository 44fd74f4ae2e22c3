"""What every answer of `/v1/responses` must be: an object of openai's, or events that make one."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

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
