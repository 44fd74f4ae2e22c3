"""`/openapi.json` admits what the gateway reads, each field by itself."""

import json
from contextlib import nullcontext
from typing import Any

import pytest

from mm_edge.errors import InvalidRequestError
from mm_runtime.gateway.api.parsing import (
    parse_chat,
    parse_completion,
    parse_response,
    parse_transcription,
)
from mm_runtime.gateway.http.openapi import openapi_document
from support.generated_requests import form
from support.schema_checks import Document

DOCUMENT = Document(openapi_document("toy"))
MESSAGES = [{"role": "user", "content": "x"}]
BODIES: dict[str, tuple[Any, dict[str, object]]] = {
    "ChatRequest": (parse_chat, {"messages": MESSAGES}),
    "CompletionRequest": (parse_completion, {"prompt": "x"}),
    "ResponsesRequest": (parse_response, {"input": "x"}),
    "TranscriptionRequest": (parse_transcription, {"file": b"x"}),
}
PATTERN = {"structured_outputs": {"regex": "a"}}
TOOLS = [{"type": "function", "function": {"name": "rain"}}]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x"}}
CALL = {"id": "1", "function": {"name": "rain", "arguments": "{}"}}


def said(*parts: object, role: str = "user", **fields: object) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": list(parts), **fields}]}


def called(type: str = "function", **fields: object) -> dict[str, Any]:  # noqa: A002 (as sent)
    return {"id": "1", "type": type, "function": {"name": "rain", **fields}}


def seen(url: object) -> dict[str, Any]:
    """Return the input of a response about one image, which a function has found."""
    image = {"type": "input_image", "image_url": url}
    return {"input": [{"type": "function_call_output", "call_id": "c", "output": [image]}]}


CASES: list[tuple[str, dict[str, Any], bool]] = [
    ("ChatRequest", {"stream_options": {}, "stream": True}, True),
    ("ChatRequest", {"prompt_logprobs": 0}, False),
    ("ChatRequest", {"prompt_logprobs": None}, True),
    ("ChatRequest", {"top_logprobs": 0}, True),
    ("ChatRequest", {"top_logprobs": 1, "logprobs": True}, True),
    ("ChatRequest", {"guided_regex": "a"}, False),
    ("ChatRequest", {"guided_regex": None}, True),
    ("ChatRequest", {**PATTERN, "response_format": {"type": "text"}}, True),
    ("ChatRequest", {"response_format": SCHEMA, "min_tokens": 0}, True),
    ("ChatRequest", {"tool_choice": "auto"}, True),
    ("ChatRequest", {"tool_choice": "required", "tools": TOOLS}, True),
    ("ChatRequest", {"stop": ["a"] * 5}, False),
    ("ChatRequest", {"stop": [""]}, False),
    ("ChatRequest", {"stop": ["a"] * 4}, True),
    ("ChatRequest", {"logit_bias": {"-1": 1}}, False),
    ("ChatRequest", {"logit_bias": {"10": 1}}, True),
    ("ChatRequest", {"chat_template_kwargs": {"messages": 1}}, False),
    ("ChatRequest", {"chat_template_kwargs": {"thinking": 1}}, True),
    ("ChatRequest", {"messages": [{"role": "assistant", "content": None}]}, True),
    ("ChatRequest", {"messages": [{**MESSAGES[0], "tool_calls": []}]}, True),
    ("ChatRequest", said({"type": "image_url", "image_url": " "}), False),
    ("ChatRequest", said({"type": "image_url", "image_url": {}}), False),
    ("ChatRequest", said({"type": "text"}), True),
    ("ChatRequest", said(role="assistant", tool_calls=[called(arguments=1)]), False),
    ("ChatRequest", said(role="assistant", tool_calls=[called(name="")]), False),
    ("ResponsesRequest", seen("https://a.org/b"), True),
    ("ResponsesRequest", seen({"url": "https://a.org/b", "detail": "low"}), False),
    ("ChatRequest", {"structured_outputs": {"regex": "a", "json_object": False}}, True),
    ("CompletionRequest", {"prompt": []}, False),
    ("CompletionRequest", {"prompt": [[1], [2]]}, False),
    ("ResponsesRequest", {"tool_choice": {"type": "function", "name": "a b"}}, False),
    (
        "ResponsesRequest",
        {"tool_choice": "required", "tools": [{"type": "function", "name": "rain"}]},
        True,
    ),
    ("TranscriptionRequest", {"stream": True, "response_format": "text"}, True),
    (
        "TranscriptionRequest",
        {"timestamp_granularities": ["segment"], "response_format": "verbose_json"},
        True,
    ),
    (
        "TranscriptionRequest",
        {"timestamp_granularities": ["word"], "response_format": "verbose_json"},
        False,
    ),
]
TOGETHER: list[tuple[str, dict[str, Any]]] = [
    ("ChatRequest", {"stream_options": {}}),
    ("ChatRequest", {"top_logprobs": 1}),
    ("ChatRequest", {**PATTERN, "response_format": SCHEMA}),
    ("ChatRequest", {**PATTERN, "min_tokens": 1}),
    ("ChatRequest", {"response_format": SCHEMA, "ignore_eos": True}),
    ("ChatRequest", {"tool_choice": "required"}),
    ("ChatRequest", {"tool_choice": "required", "tools": TOOLS, "min_tokens": 1}),
    ("ChatRequest", {"tool_choice": "required", "tools": TOOLS, **PATTERN}),
    ("ChatRequest", {"messages": [{"role": "user", "content": None}]}),
    ("ChatRequest", {"messages": [{**MESSAGES[0], "tool_calls": [CALL]}]}),
    ("ChatRequest", {"structured_outputs": {}}),
    ("ChatRequest", {"structured_outputs": {"json_object": False}}),
    ("ChatRequest", {"structured_outputs": {"regex": "a", "json": {}}}),
    ("ResponsesRequest", {"tool_choice": "required"}),
    (
        "ResponsesRequest",
        {
            "tool_choice": "required",
            "tools": [{"type": "function", "name": "rain"}],
            "text": {"format": {"type": "json_object"}},
        },
    ),
    ("TranscriptionRequest", {"stream": True, "response_format": "srt"}),
    ("TranscriptionRequest", {"timestamp_granularities": ["segment"]}),
]
"""Fields that are refused beside others, or without them; the document states each alone."""

SPELLINGS: list[tuple[str, dict[str, Any]]] = [
    ("ChatRequest", said({"type": "image_url", "image_url": "https://a.org/b"})),
    ("ChatRequest", said(role="assistant", tool_calls=[called(arguments=["x"])])),
    ("ChatRequest", said(role="assistant", tool_calls=[called(type="")])),
    ("ResponsesRequest", seen({"url": "https://a.org/b"})),
    ("ChatRequest", {"structured_outputs": {"json": "{}"}}),
]
"""What clients of other servers write, and is read; the document has OpenAI's own."""

ALL = [
    *((name, fields, read, read) for name, fields, read in CASES),
    *((name, fields, False, True) for name, fields in TOGETHER),
    *((name, fields, True, False) for name, fields in SPELLINGS),
]


@pytest.mark.parametrize(
    ("name", "fields", "read", "stated"),
    ALL,
    ids=[f"{name}-{json.dumps(fields)[1:-1]}" for name, fields, *_ in ALL],
)
def test_both_agree(name: str, fields: dict[str, Any], *, read: bool, stated: bool) -> None:
    parse, given = BODIES[name]
    body = {"model": "toy", **given, **fields}
    kind, sent = form(body) if "file" in body else ("application/json", json.dumps(body).encode())
    with nullcontext() if read else pytest.raises(InvalidRequestError):
        parse(sent, kind)
    schema = {"$ref": f"#/components/schemas/{name}"}
    assert stated == DOCUMENT.admits(schema, body)
