"""Rows of chats: scores, samples, streams, forms, roles, templates, labels."""

from functools import partial
from typing import Any

from support.calling_llava import SIZE
from support.vllm_requests.completions import UNSCORED, usage_always, usage_last
from support.vllm_requests.table import (
    CHAT,
    MESSAGES,
    QUESTION,
    Check,
    Refused,
    Row,
    choices,
    reasons_of,
    same,
    says,
    text_of,
    tokens,
)

_CHAT = "entrypoints/openai/chat_completion/"
TESTED = (f"{_CHAT}test_chat.py",)
BIAS = (f"{_CHAT}test_chat_logit_bias_validation.py",)
STOPS = (f"{_CHAT}test_chat_stop_token_ids_validation.py",)
BODIES = (f"{_CHAT}test_non_object_body_validation.py",)
ERRORS = (f"{_CHAT}test_chat_error.py",)
ECHO = ("entrypoints/openai/basic/test_chat_echo.py",)
IDS = ("entrypoints/openai/basic/test_return_token_ids.py",)
REASONING = ("tool_use/test_chat_completion_request_validations.py",)
WRONG = ("entrypoints/serve/exception_handling/test_validation_exception_handler.py",)
CHOSEN = (f"{_CHAT}test_logprob_token_ids.py",)
KINDS = ("entrypoints/serve/instrumentator/test_basic.py",)

SAMPLED = {"temperature": 2, "seed": 42}
BEYOND = 2**63
STREAM: dict[str, Any] = {"stream": True}
ANSWERED = [*MESSAGES, {"role": "assistant", "content": "No"}]
STRICT = "fields that would be without effect are refused, not ignored"
OBJECT = {
    "type": "object",
    "properties": {"a": {"const": 1}},
    "required": ["a"],
    "additionalProperties": False,
}
NO_BLANKS = {str(ord(blank)): -100 for blank in " \t\n\r"}


def _likeliest(count: int) -> Check:
    return lambda answer: (
        all(
            len(one["top_logprobs"]) == count for one in answer["choices"][0]["logprobs"]["content"]
        )
        and len(answer["choices"][0]["logprobs"]["content"]) == 6
    )


def _finite(answer: Any) -> bool:
    scores = [
        likely["logprob"]
        for one in answer["choices"][0]["logprobs"]["content"]
        for likely in one["top_logprobs"]
    ]
    return bool(scores) and all(-9999 <= one <= 0 for one in scores)


def _streams(answer: Any, other: Any) -> bool:
    roles = [one["choices"][0]["delta"].get("role") for one in answer]
    return (
        text_of(answer) == text_of(other)
        and reasons_of(answer) == ["length"]
        and {*roles} == {"assistant", None}
    )


def _two_streams(answer: Any) -> bool:
    return text_of(answer, 0) != text_of(answer, 1) and reasons_of(answer) == ["length"] * 2


def _from(role: str, content: object = QUESTION, **more: object) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content, **more}]}


_tested = partial(Row, TESTED, CHAT)
_echo = partial(Row, ECHO, CHAT)
_reasoning = partial(Row, REASONING, CHAT)
_errors = partial(Row, ERRORS, CHAT)
_bias = partial(Row, BIAS, CHAT)
_stops = partial(Row, STOPS, CHAT)
_bodies = partial(Row, BODIES, CHAT)
_wrong = partial(Row, WRONG, CHAT)

ROWS = (
    _tested("a chat is answered; usage adds up", tokens(5), {"max_completion_tokens": 5}),
    _tested(
        "a conversation of several turns",
        tokens(6),
        {"messages": [{"role": "system", "content": "Be brief."}, *ANSWERED, *MESSAGES]},
    ),
    _tested(
        "`logprobs: false`",
        lambda answer: answer["choices"][0]["logprobs"] is None,
        {"logprobs": False},
    ),
    _tested(
        "`logprobs` with `top_logprobs: 0`", _likeliest(0), {"logprobs": True, "top_logprobs": 0}
    ),
    _tested("`top_logprobs: 5`", _likeliest(5), {"logprobs": True, "top_logprobs": 5}),
    _tested(
        "`top_logprobs: 21` of a stream",
        Refused("top_logprobs", says="20"),
        {**STREAM, "logprobs": True, "top_logprobs": 21},
    ),
    _echo(
        "`top_logprobs: -1`",
        Refused("top_logprobs"),
        {"logprobs": True, "top_logprobs": -1},
        differs="0 to 20, as OpenAI has it; there -1 is all that the server allows",
    ),
    Row(
        (*TESTED, *ECHO),
        CHAT,
        "`prompt_logprobs: 2`",
        Refused("prompt_logprobs", says="no scores"),
        {"prompt_logprobs": 2},
        differs=UNSCORED,
    ),
    Row(
        IDS,
        CHAT,
        "`return_token_ids`",
        Refused("return_token_ids", code="unknown_parameter"),
        {"return_token_ids": True},
        differs="refused by name; the checkpoint's tokenizer gives the ids of a conversation",
    ),
    _tested("a stream joins to the plain answer, one role, one reason", _streams, STREAM, {}),
    _tested(
        "`include_usage: false`",
        lambda answer: not any(one.get("usage") for one in answer),
        {**STREAM, "stream_options": {"include_usage": False}},
    ),
    _tested(
        "`include_usage: true`",
        usage_last,
        {**STREAM, "stream_options": {"include_usage": True, "continuous_usage_stats": False}},
    ),
    _tested(
        "`continuous_usage_stats` with `include_usage`",
        usage_always,
        {**STREAM, "stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    ),
    _tested(
        "`stream_options` without a stream",
        Refused("stream_options"),
        {"stream_options": {"include_usage": True}},
    ),
    _tested("three samples", choices(3), {"n": 3, **SAMPLED}),
    _tested("two samples as one stream", _two_streams, {**STREAM, "n": 2, **SAMPLED}),
    _tested(
        "`n: 2` with a seed repeats",
        lambda one, other: same(one, other) and choices(2)(one),
        {"n": 2, **SAMPLED},
        {"n": 2, **SAMPLED},
    ),
    _tested("a seed above 64 bits", Refused("seed", says="less than"), {"seed": BEYOND}),
    _tested(
        "a choice of texts with `top_logprobs`: scores are finite",
        _finite,
        {"structured_outputs": {"choice": ["dry"]}, "logprobs": True, "top_logprobs": 5},
    ),
    Row(
        (),
        CHAT,
        "`guided_regex`, as older versions spell a pattern",
        Refused("guided_regex", says="structured_outputs"),
        {"guided_regex": "a"},
    ),
    _tested(
        "a pattern that is an object",
        Refused("structured_outputs.regex"),
        {"structured_outputs": {"regex": {"1": "one"}}},
    ),
    *(
        Row(
            (*TESTED, *REASONING),
            CHAT,
            f"`structured_outputs.{name}`",
            says(text),
            {"structured_outputs": {name: value}, "max_tokens": 12, "logit_bias": NO_BLANKS},
        )
        for name, value, text in (
            ("choice", ["dry"], "dry"),
            ("json", OBJECT, '{"a":1}'),
            ("regex", "no", "no"),
        )
    ),
    _reasoning(
        "two of `structured_outputs`",
        Refused("structured_outputs", says="expected one of"),
        {"structured_outputs": {"regex": "a", "choice": ["a"]}},
    ),
    _reasoning(
        "two forms at once",
        Refused("response_format", says="one form"),
        {"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}},
    ),
    _tested(
        "`response_format: json_object`",
        lambda answer: text_of(answer).strip().startswith("{"),
        {"response_format": {"type": "json_object"}, "max_tokens": 40},
    ),
    _tested(
        "`response_format: json_schema`",
        says('{"a":1}'),
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": OBJECT},
            },
            "logit_bias": NO_BLANKS,
            "max_tokens": 60,
        },
    ),
    _errors(
        "`response_format: json_schema` without a schema",
        Refused("response_format.json_schema"),
        {"response_format": {"type": "json_schema"}},
    ),
    _tested("`response_format: text`", same, {"response_format": {"type": "text"}}, {}),
    _tested(
        "a message with an unknown field",
        Refused("messages[0].extra_field", code="unknown_parameter"),
        _from("user", extra_field="0"),
        differs=STRICT,
    ),
    Row(
        (*TESTED, *ERRORS),
        CHAT,
        "content as a list of texts",
        same,
        _from("user", [{"type": "text", "text": QUESTION}]),
        {},
    ),
    _tested(
        "a role of the client's own",
        Refused("messages[0].role"),
        _from("my-custom-role"),
        differs="OpenAI's roles, which are those that templates know",
    ),
    _reasoning(
        "`reasoning_content` of an earlier answer",
        tokens(6),
        {"messages": [*MESSAGES, {**ANSWERED[-1], "reasoning_content": "so"}, *MESSAGES]},
    ),
    _echo(
        "`continue_final_message` without `echo`",
        Refused("continue_final_message", code="unknown_parameter"),
        {"messages": ANSWERED, "continue_final_message": True},
        differs="a prompt that is to be continued is one of `/v1/completions`",
    ),
    _bias("`logit_bias` of the last token", tokens(6), {"logit_bias": {str(SIZE - 1): 1.0}}),
    _stops("`stop_token_ids` of the last token", tokens(6), {"stop_token_ids": [SIZE - 1]}),
    _stops("`stop_token_ids` below 0", Refused("stop_token_ids[0]"), {"stop_token_ids": [-1]}),
    _bodies("an empty `cache_salt`", Refused("cache_salt"), {"cache_salt": ""}),
    Row(
        KINDS,
        CHAT,
        "a body called a form",
        tokens(6),
        headers={"content-type": "application/x-www-form-urlencoded"},
        differs="the body is read as JSON, as programs of other servers send it",
    ),
    _wrong(
        "no messages at all",
        Refused("messages", code="missing_required_parameter"),
        without=("messages",),
    ),
    _wrong(
        "thousands of wrong parts: the refusal stays short",
        Refused("messages[0].content[0].text"),
        {"messages": [{"role": "user", "content": [{"type": "text", "text": 1}] * 1000}]},
    ),
    _wrong(
        "a long text where a number is expected",
        Refused("max_tokens"),
        {"max_tokens": "A" * 100_000},
    ),
    Row(
        CHOSEN,
        CHAT,
        "scores of chosen tokens",
        Refused("logprob_token_ids", code="unknown_parameter"),
        {"logprobs": True, "logprob_token_ids": [1, 2]},
        differs="`top_logprobs` are the likeliest; a choice of tokens is not there",
    ),
    Row(
        (*CHOSEN, *IDS),
        CHAT,
        "`return_tokens_as_token_ids`",
        Refused("return_tokens_as_token_ids", code="unknown_parameter"),
        {"logprobs": True, "return_tokens_as_token_ids": True},
        differs="`bytes` of each token say what it is",
    ),
)
"""All of them."""
