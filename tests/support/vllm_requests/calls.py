"""Rows of tools, and of responses."""

import json
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


ROWS = (
    Row(
        "`tool_choice: required`",
        CALLS,
        CHAT,
        _calls,
        {**TOOLS, "tool_choice": "required", "parallel_tool_calls": False},
    ),
    Row("`tool_choice` names a function", CALLS, CHAT, _calls, {**TOOLS, "tool_choice": NAMED}),
    Row(
        "a call as a stream",
        CALLS,
        CHAT,
        _streams_a_call,
        {**TOOLS, "tool_choice": NAMED, "stream": True},
    ),
    Row(
        "`tool_choice: auto` has the functions in the prompt",
        CALLS,
        CHAT,
        _longer,
        {"tools": TOOLS["tools"], "tool_choice": "auto"},
        {},
    ),
    Row(
        "`tool_choice: none` leaves the functions out",
        CALLS,
        CHAT,
        same,
        {"tools": TOOLS["tools"], "tool_choice": "none"},
        {},
    ),
    Row(
        "`tool_choice: null`",
        NULL,
        CHAT,
        _longer,
        {"tools": TOOLS["tools"], "tool_choice": None},
        {},
    ),
    Row("`tools: null`", CHECKS, CHAT, same, {"tools": None}, {}),
    Row(
        "`tools` that are empty",
        CHECKS,
        CHAT,
        same,
        {"tools": []},
        {},
        differs="they mean that a client has none, as `tools: null` does",
    ),
    Row(
        "`tool_choice: auto` without tools",
        CHECKS,
        CHAT,
        same,
        {"tool_choice": "auto"},
        {},
        differs="it is the default, and changes nothing",
    ),
    Row(
        "`tool_choice: required` without tools",
        CHECKS,
        CHAT,
        Refused("tool_choice", says="tools"),
        {"tool_choice": "required"},
    ),
    Row(
        "`tool_choice` names a function that is none of `tools`",
        CALLS,
        CHAT,
        Refused("tool_choice", says="other"),
        {**TOOLS, "tool_choice": {"type": "function", "function": {"name": "other"}}},
    ),
    Row(
        "`tool_choice` of unknown form",
        CALLS,
        CHAT,
        Refused("tool_choice"),
        {**TOOLS, "tool_choice": "sometimes"},
    ),
    Row(
        "a named function beside another form",
        CHECKS,
        CHAT,
        Refused("tool_choice", says="one form"),
        {**TOOLS, "tool_choice": NAMED, "structured_outputs": {"regex": "a"}},
    ),
    Row(
        "a form with `tool_choice: auto`",
        CHECKS,
        CHAT,
        lambda answer: answer["choices"][0]["message"]["content"] == "dry",
        {"tools": TOOLS["tools"], "tool_choice": "auto", "structured_outputs": {"choice": ["dry"]}},
    ),
    Row(
        "an earlier call and what it found",
        CALLS,
        CHAT,
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
    Row(
        "arguments of an earlier call that are not JSON",
        CALLS,
        CHAT,
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
    Row(
        "a call without arguments, as it was made",
        CALLS,
        CHAT,
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
    Row(
        "`tool_choice` that is empty",
        CALLS,
        CHAT,
        Refused("tool_choice.type"),
        {**TOOLS, "tool_choice": {}},
    ),
    Row(
        "a named function without tools",
        CALLS,
        CHAT,
        Refused("tool_choice", says="tools"),
        {"tool_choice": NAMED},
    ),
    Row(
        "a call that `max_tokens` cuts is no call",
        CALLS,
        CHAT,
        _cut,
        {**TOOLS, "tool_choice": "required", "max_tokens": 1},
    ),
    Row(
        "a response to earlier messages with ids",
        SIMPLE,
        RESPONSE,
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
    Row(
        "a response to messages of all roles",
        BASIC,
        RESPONSE,
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
    Row(
        "reasoning among the input of a response",
        SIMPLE,
        RESPONSE,
        _said,
        {
            "input": [
                {"role": "user", "content": "Hi"},
                {"type": "reasoning", "summary": [], "encrypted_content": None},
            ]
        },
    ),
    Row(
        "`reasoning.effort` of a response",
        SIMPLE,
        RESPONSE,
        Refused("reasoning", code="unsupported_parameter"),
        {"reasoning": {"effort": "low"}},
        differs="no model here has answers that are taken apart into reasoning and text",
    ),
    Row(
        "scores of a response",
        (*SIMPLE, *BASIC),
        RESPONSE,
        Refused("include", code="unsupported_parameter"),
        {"include": ["message.output_text.logprobs"]},
        differs="chats and completions have scores",
    ),
    *(
        Row(
            f"`{name}` of a response",
            (*SIMPLE, *SAMPLING),
            RESPONSE,
            Refused(name, code="unknown_parameter"),
            {name: value},
            differs="OpenAI's fields alone; chats have vLLM's",
        )
        for name, value in (("top_k", 40), ("seed", 42), ("stop", "END"), ("ignore_eos", True))
    ),
    Row(
        "`text.format: json_object` of a response",
        SAMPLING,
        RESPONSE,
        lambda answer: answer["output"][0]["content"][0]["text"].strip().startswith("{"),
        {"text": {"format": {"type": "json_object"}}, "max_output_tokens": 40},
    ),
    Row("a stream's text is the response's", SIMPLE, RESPONSE, _joins, {"stream": True}),
    Row(
        "what a function of a response has found",
        FUNCTIONS,
        RESPONSE,
        _said,
        {
            "input": [
                {"role": "user", "content": "Rain?"},
                {"type": "function_call", "call_id": "1", "name": "rain", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "1", "output": "dry"},
            ]
        },
    ),
    Row(
        "`background: true` with `store: false`",
        STATE,
        RESPONSE,
        Refused("background"),
        {"background": True, "store": False},
    ),
    Row("a response", SIMPLE, RESPONSE, _said),
    Row(
        "a response to messages",
        SIMPLE,
        RESPONSE,
        _said,
        {"input": [{"role": "user", "content": "Will it rain?"}]},
    ),
    Row(
        "`instructions`",
        BASIC,
        RESPONSE,
        lambda one, other: one["usage"]["input_tokens"] > other["usage"]["input_tokens"],
        {"instructions": "Be brief."},
        {},
    ),
    Row("a response as a stream", SIMPLE, RESPONSE, _events, {"stream": True}),
    Row(
        "`max_output_tokens` cuts",
        BASIC,
        RESPONSE,
        lambda answer: answer["incomplete_details"] == {"reason": "max_output_tokens"},
    ),
    Row(
        "a response's `text.format`",
        FORMS,
        RESPONSE,
        lambda answer: answer["output"][0]["content"][0]["text"].startswith("{"),
        {
            "text": {"format": {"type": "json_schema", "name": "x", "schema": ARGUMENTS}},
            "max_output_tokens": 60,
        },
    ),
    Row(
        "a response calls a function",
        FUNCTIONS,
        RESPONSE,
        lambda answer: answer["output"][0]["type"] == "function_call",
        {
            "tools": [{"type": "function", **RAIN}],
            "max_output_tokens": 400,
            "tool_choice": {"type": "function", "name": "rain"},
        },
    ),
    Row(
        "`store: true`",
        STATE,
        RESPONSE,
        Refused("store", code="unsupported_parameter"),
        {"store": True},
        differs="nothing is kept between two requests",
    ),
    Row(
        "`previous_response_id`",
        STATE,
        RESPONSE,
        Refused("previous_response_id", code="unsupported_parameter"),
        {"previous_response_id": "resp_1"},
        differs="nothing is kept between two requests",
    ),
    Row(
        "`background: true`",
        STATE,
        RESPONSE,
        Refused("background", code="unsupported_parameter"),
        {"background": True},
        differs="nothing is kept between two requests",
    ),
    Row(
        "an earlier response by its id",
        STATE,
        "/v1/responses/resp_1",
        Refused(None, 404),
        method="GET",
        differs="nothing is kept between two requests",
    ),
    Row(
        "another model of a response",
        BASIC,
        RESPONSE,
        Refused("model", 404, "model_not_found"),
        {"model": "other"},
    ),
)
"""All of them."""
