"""Rows of tools, and of responses."""

import json
from functools import partial
from typing import Any

from support.vllm_requests.table import CHAT, MESSAGES, RESPONSE, Refused, Row, same

_CHAT = "entrypoints/openai/chat_completion/"
CALLS = (f"{_CHAT}test_completion_with_function_calling.py",)
CHECKS = ("tool_use/test_chat_completion_request_validations.py",)
NULL = (f"{_CHAT}test_tool_choice_null.py",)
SIMPLE = ("entrypoints/openai/responses/test_simple.py",)
BASIC = ("entrypoints/openai/responses/test_basic.py",)
STATE = ("entrypoints/openai/responses/test_stateful.py",)
FORMS = ("entrypoints/openai/responses/test_structured_output.py",)
FUNCTIONS = ("entrypoints/openai/responses/test_function_call.py",)

SAMPLING = ("entrypoints/openai/responses/test_sampling_params.py",)

ARGUMENTS = {
    "type": "object",
    "properties": {"a": {"const": 1}},
    "required": ["a"],
    "additionalProperties": False,
}
RAIN = {"name": "rain", "parameters": ARGUMENTS}
TOOLS = {
    "tools": [{"type": "function", "function": RAIN}],
    "max_tokens": 120,
    "logit_bias": {str(ord(blank)): -100 for blank in " \t\n\r"},
}
NAMED = {"type": "function", "function": {"name": "rain"}}
MADE = {"id": "call_1", "type": "function", "function": {"name": "rain", "arguments": '{"a": 1}'}}


def _calls(answer: Any) -> bool:
    first = answer["choices"][0]["message"]["tool_calls"][0]
    called = {"name": "rain", "arguments": {"a": 1}}
    function = first["function"]
    return {"name": function["name"], "arguments": json.loads(function["arguments"])} == called


def _streams_a_call(answer: Any) -> bool:
    pieces = [
        call["function"]
        for one in answer
        for choice in one["choices"]
        for call in choice["delta"].get("tool_calls") or ()
    ]
    arguments = "".join(piece["arguments"] or "" for piece in pieces)
    made = {"name": pieces[0]["name"], "arguments": json.loads(arguments)}
    return made == {"name": "rain", "arguments": {"a": 1}}


def _longer(answer: Any, other: Any) -> bool:
    return bool(answer["usage"]["prompt_tokens"] > other["usage"]["prompt_tokens"])


def _said(answer: Any) -> bool:
    return bool(answer["output"][0]["content"][0]["type"] == "output_text")


def _events(answer: Any) -> bool:
    kinds = [one["type"] for one in answer]
    return [kinds[0], kinds[-1]] == ["response.created", "response.incomplete"]


def _cut(answer: Any) -> bool:
    (choice,) = answer["choices"]
    return not choice["message"]["tool_calls"] and choice["finish_reason"] == "length"


def _joins(answer: Any) -> bool:
    text = "".join(one["delta"] for one in answer if one["type"] == "response.output_text.delta")
    return bool(answer[-1]["response"]["output"][0]["content"][0]["text"] == text)


_called = partial(Row, CALLS, CHAT)
_checks = partial(Row, CHECKS, CHAT)
_simple = partial(Row, SIMPLE, RESPONSE)
_basic = partial(Row, BASIC, RESPONSE)
_state = partial(Row, STATE, RESPONSE)

ROWS = (
    _called(
        "`tool_choice: required`",
        _calls,
        {**TOOLS, "tool_choice": "required", "parallel_tool_calls": False},
    ),
    _called("`tool_choice` names a function", _calls, {**TOOLS, "tool_choice": NAMED}),
    _called("a call as a stream", _streams_a_call, {**TOOLS, "tool_choice": NAMED, "stream": True}),
    _called(
        "`tool_choice: auto` has the functions in the prompt",
        _longer,
        {"tools": TOOLS["tools"], "tool_choice": "auto"},
        {},
    ),
    _called(
        "`tool_choice: none` leaves the functions out",
        same,
        {"tools": TOOLS["tools"], "tool_choice": "none"},
        {},
    ),
    Row(
        NULL,
        CHAT,
        "`tool_choice: null`",
        _longer,
        {"tools": TOOLS["tools"], "tool_choice": None},
        {},
    ),
    _checks("`tools: null`", same, {"tools": None}, {}),
    _checks(
        "`tools` that are empty",
        same,
        {"tools": []},
        {},
        differs="they mean that a client has none, as `tools: null` does",
    ),
    _checks(
        "`tool_choice: auto` without tools",
        same,
        {"tool_choice": "auto"},
        {},
        differs="it is the default, and changes nothing",
    ),
    _checks(
        "`tool_choice: required` without tools",
        Refused("tool_choice", says="tools"),
        {"tool_choice": "required"},
    ),
    _called(
        "`tool_choice` names a function that is none of `tools`",
        Refused("tool_choice", says="other"),
        {**TOOLS, "tool_choice": {"type": "function", "function": {"name": "other"}}},
    ),
    _called(
        "`tool_choice` of unknown form",
        Refused("tool_choice"),
        {**TOOLS, "tool_choice": "sometimes"},
    ),
    _checks(
        "a named function beside another form",
        Refused("tool_choice", says="one form"),
        {**TOOLS, "tool_choice": NAMED, "structured_outputs": {"regex": "a"}},
    ),
    _checks(
        "a form with `tool_choice: auto`",
        lambda answer: answer["choices"][0]["message"]["content"] == "dry",
        {"tools": TOOLS["tools"], "tool_choice": "auto", "structured_outputs": {"choice": ["dry"]}},
    ),
    _called(
        "an earlier call and what it found",
        _longer,
        {
            "messages": [
                *MESSAGES,
                {"role": "assistant", "content": None, "tool_calls": [MADE]},
                {"role": "tool", "tool_call_id": "call_1", "content": "dry"},
            ]
        },
        {},
    ),
    _called(
        "arguments of an earlier call that are not JSON",
        _longer,
        {
            "messages": [
                *MESSAGES,
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{**MADE, "function": {"name": "rain", "arguments": "{"}}],
                },
            ]
        },
        {},
        differs="clients send such calls again with each turn; newer vLLM takes them, too",
    ),
    _called(
        "a call without arguments, as it was made",
        _longer,
        {
            "messages": [
                *MESSAGES,
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{**MADE, "function": {"name": "rain", "arguments": ""}}],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": "dry"},
            ]
        },
        {},
    ),
    _called(
        "`tool_choice` that is empty", Refused("tool_choice.type"), {**TOOLS, "tool_choice": {}}
    ),
    _called(
        "a named function without tools",
        Refused("tool_choice", says="tools"),
        {"tool_choice": NAMED},
    ),
    _called(
        "a call that `max_tokens` cuts is no call",
        _cut,
        {**TOOLS, "tool_choice": "required", "max_tokens": 1},
    ),
    _simple(
        "a response to earlier messages with ids",
        _said,
        {
            "input": [
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "Hi"}],
                },
                {
                    "type": "message",
                    "role": "assistant",
                    "id": "msg_1",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "Yes."}],
                },
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "So?"}],
                },
            ]
        },
    ),
    _basic(
        "a response to messages of all roles",
        _said,
        {
            "input": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "5?"},
                {"role": "assistant", "content": "15."},
                {"role": "user", "content": "2?"},
            ]
        },
    ),
    _simple(
        "reasoning among the input of a response",
        _said,
        {
            "input": [
                {"role": "user", "content": "Hi"},
                {"type": "reasoning", "summary": [], "encrypted_content": None},
            ]
        },
    ),
    _simple(
        "`reasoning.effort` of a response",
        Refused("reasoning", code="unsupported_parameter"),
        {"reasoning": {"effort": "low"}},
        differs="no model here has answers that are split into reasoning and text",
    ),
    Row(
        (*SIMPLE, *BASIC),
        RESPONSE,
        "scores of a response",
        Refused("include", code="unsupported_parameter"),
        {"include": ["message.output_text.logprobs"]},
        differs="chats and completions have scores",
    ),
    *(
        Row(
            (*SIMPLE, *SAMPLING),
            RESPONSE,
            f"`{name}` of a response",
            Refused(name, code="unknown_parameter"),
            {name: value},
            differs="OpenAI's fields alone; chats have vLLM's",
        )
        for name, value in (("top_k", 40), ("seed", 42), ("stop", "END"), ("ignore_eos", True))
    ),
    Row(
        SAMPLING,
        RESPONSE,
        "`text.format: json_object` of a response",
        lambda answer: answer["output"][0]["content"][0]["text"].strip().startswith("{"),
        {"text": {"format": {"type": "json_object"}}, "max_output_tokens": 40},
    ),
    _simple("a stream's text is the response's", _joins, {"stream": True}),
    Row(
        FUNCTIONS,
        RESPONSE,
        "what a function of a response has found",
        _said,
        {
            "input": [
                {"role": "user", "content": "Rain?"},
                {"type": "function_call", "call_id": "1", "name": "rain", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "1", "output": "dry"},
            ]
        },
    ),
    _simple("a response", _said),
    _basic(
        "`instructions`",
        lambda one, other: one["usage"]["input_tokens"] > other["usage"]["input_tokens"],
        {"instructions": "Be brief."},
        {},
    ),
    _simple("a response as a stream", _events, {"stream": True}),
    _basic(
        "`max_output_tokens` cuts",
        lambda answer: answer["incomplete_details"] == {"reason": "max_output_tokens"},
    ),
    Row(
        FORMS,
        RESPONSE,
        "a response's `text.format`",
        lambda answer: answer["output"][0]["content"][0]["text"].startswith("{"),
        {
            "text": {"format": {"type": "json_schema", "name": "x", "schema": ARGUMENTS}},
            "max_output_tokens": 60,
        },
    ),
    Row(
        FUNCTIONS,
        RESPONSE,
        "a response calls a function",
        lambda answer: answer["output"][0]["type"] == "function_call",
        {
            "tools": [{"type": "function", **RAIN}],
            "max_output_tokens": 400,
            "tool_choice": {"type": "function", "name": "rain"},
        },
    ),
    _state(
        "`store: true`",
        Refused("store", code="unsupported_parameter"),
        {"store": True},
        differs="nothing is kept between two requests",
    ),
    _state(
        "`previous_response_id`",
        Refused("previous_response_id", code="unsupported_parameter"),
        {"previous_response_id": "resp_1"},
        differs="nothing is kept between two requests",
    ),
    _state(
        "`background: true`",
        Refused("background", code="unsupported_parameter"),
        {"background": True},
        differs="nothing is kept between two requests",
    ),
    Row(
        STATE,
        "/v1/responses/resp_1",
        "an earlier response by its id",
        Refused(None, 404),
        method="GET",
        differs="nothing is kept between two requests",
    ),
    _basic(
        "another model of a response", Refused("model", 404, "model_not_found"), {"model": "other"}
    ),
)
"""All of them."""
