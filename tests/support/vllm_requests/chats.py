"""Rows of chats: scores, samples, streams, forms, roles, templates, labels."""

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


ROWS = (
    Row("a chat is answered; usage adds up", TESTED, CHAT, tokens(5), {"max_completion_tokens": 5}),
    Row(
        "a conversation of several turns",
        TESTED,
        CHAT,
        tokens(6),
        {"messages": [{"role": "system", "content": "Be brief."}, *ANSWERED, *MESSAGES]},
    ),
    Row(
        "`logprobs: false`",
        TESTED,
        CHAT,
        lambda answer: answer["choices"][0]["logprobs"] is None,
        {"logprobs": False},
    ),
    Row(
        "`logprobs` with `top_logprobs: 0`",
        TESTED,
        CHAT,
        _likeliest(0),
        {"logprobs": True, "top_logprobs": 0},
    ),
    Row("`top_logprobs: 5`", TESTED, CHAT, _likeliest(5), {"logprobs": True, "top_logprobs": 5}),
    Row(
        "`top_logprobs: 21` of a stream",
        TESTED,
        CHAT,
        Refused("top_logprobs", says="20"),
        {**STREAM, "logprobs": True, "top_logprobs": 21},
    ),
    Row(
        "`top_logprobs: 30`",
        TESTED,
        CHAT,
        Refused("top_logprobs", says="20"),
        {"logprobs": True, "top_logprobs": 30},
    ),
    Row(
        "`top_logprobs: -1`",
        ECHO,
        CHAT,
        Refused("top_logprobs"),
        {"logprobs": True, "top_logprobs": -1},
        differs="0 to 20, as OpenAI has it; there -1 is all that the server allows",
    ),
    Row(
        "`prompt_logprobs: 2`",
        (*TESTED, *ECHO),
        CHAT,
        Refused("prompt_logprobs", says="no scores"),
        {"prompt_logprobs": 2},
        differs=UNSCORED,
    ),
    Row(
        "`return_token_ids`",
        IDS,
        CHAT,
        Refused("return_token_ids", code="unknown_parameter"),
        {"return_token_ids": True},
        differs="refused by name; POST /tokenize gives the ids of a conversation",
    ),
    Row(
        "a stream joins to the plain answer, one role, one reason",
        TESTED,
        CHAT,
        _streams,
        STREAM,
        {},
    ),
    Row(
        "`include_usage: false`",
        TESTED,
        CHAT,
        lambda answer: not any(one.get("usage") for one in answer),
        {**STREAM, "stream_options": {"include_usage": False}},
    ),
    Row(
        "`include_usage: true`",
        TESTED,
        CHAT,
        usage_last,
        {**STREAM, "stream_options": {"include_usage": True, "continuous_usage_stats": False}},
    ),
    Row(
        "`continuous_usage_stats` with `include_usage`",
        TESTED,
        CHAT,
        usage_always,
        {**STREAM, "stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    ),
    Row(
        "`stream_options` without a stream",
        TESTED,
        CHAT,
        Refused("stream_options"),
        {"stream_options": {"include_usage": True}},
    ),
    Row(
        "`stream_options` with `stream: false`",
        TESTED,
        CHAT,
        Refused("stream_options"),
        {"stream": False, "stream_options": {"include_usage": True}},
    ),
    Row("three samples", TESTED, CHAT, choices(3), {"n": 3, **SAMPLED}),
    Row("two samples as one stream", TESTED, CHAT, _two_streams, {**STREAM, "n": 2, **SAMPLED}),
    Row(
        "`n: 2` with a seed repeats",
        TESTED,
        CHAT,
        lambda one, other: same(one, other) and choices(2)(one),
        {"n": 2, **SAMPLED},
        {"n": 2, **SAMPLED},
    ),
    Row("`n: 1`", TESTED, CHAT, choices(1), {"n": 1}),
    Row("a seed above 64 bits", TESTED, CHAT, Refused("seed", says="less than"), {"seed": BEYOND}),
    Row(
        "a seed below 64 bits",
        TESTED,
        CHAT,
        Refused("seed", says="greater than"),
        {"seed": -BEYOND - 1},
    ),
    Row(
        "a choice of texts with `top_logprobs`: scores are finite",
        TESTED,
        CHAT,
        _finite,
        {"structured_outputs": {"choice": ["dry"]}, "logprobs": True, "top_logprobs": 5},
    ),
    Row(
        "`guided_regex`, as older versions spell a pattern",
        (),
        CHAT,
        Refused("guided_regex", says="structured_outputs"),
        {"guided_regex": "a"},
    ),
    Row(
        "a pattern that is an object",
        TESTED,
        CHAT,
        Refused("structured_outputs.regex"),
        {"structured_outputs": {"regex": {"1": "one"}}},
    ),
    *(
        Row(
            f"`structured_outputs.{name}`",
            (*TESTED, *REASONING),
            CHAT,
            says(text),
            {"structured_outputs": {name: value}, "max_tokens": 12, "logit_bias": NO_BLANKS},
        )
        for name, value, text in (
            ("choice", ["dry"], "dry"),
            ("json", OBJECT, '{"a":1}'),
            ("regex", "no", "no"),
        )
    ),
    Row(
        "two of `structured_outputs`",
        REASONING,
        CHAT,
        Refused("structured_outputs", says="expected one of"),
        {"structured_outputs": {"regex": "a", "choice": ["a"]}},
    ),
    Row(
        "`structured_outputs` that is a number",
        REASONING,
        CHAT,
        Refused("structured_outputs"),
        {"structured_outputs": 3},
    ),
    Row(
        "two forms at once",
        REASONING,
        CHAT,
        Refused("response_format", says="one form"),
        {"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}},
    ),
    Row(
        "`response_format: json_object`",
        TESTED,
        CHAT,
        lambda answer: text_of(answer).strip().startswith("{"),
        {"response_format": {"type": "json_object"}, "max_tokens": 40},
    ),
    Row(
        "`response_format: json_schema`",
        TESTED,
        CHAT,
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
    Row(
        "`response_format: json_schema` without a schema",
        ERRORS,
        CHAT,
        Refused("response_format.json_schema"),
        {"response_format": {"type": "json_schema"}},
    ),
    Row("`response_format: text`", TESTED, CHAT, same, {"response_format": {"type": "text"}}, {}),
    Row(
        "a message with an unknown field",
        TESTED,
        CHAT,
        Refused("messages[0].extra_field", code="unknown_parameter"),
        _from("user", extra_field="0"),
        differs=STRICT,
    ),
    Row(
        "content as a list of texts",
        (*TESTED, *ERRORS),
        CHAT,
        same,
        _from("user", [{"type": "text", "text": QUESTION}]),
        {},
    ),
    Row(
        "a system message as a list of texts",
        ERRORS,
        CHAT,
        same,
        _from("system", [{"type": "text", "text": QUESTION}]),
        _from("system"),
    ),
    Row(
        "a role of the client's own",
        TESTED,
        CHAT,
        Refused("messages[0].role"),
        _from("my-custom-role"),
        differs="OpenAI's roles, which are those that templates know",
    ),
    Row(
        "`reasoning_content` of an earlier answer",
        REASONING,
        CHAT,
        tokens(6),
        {"messages": [*MESSAGES, {**ANSWERED[-1], "reasoning_content": "so"}, *MESSAGES]},
    ),
    Row(
        "`continue_final_message` without `echo`",
        ECHO,
        CHAT,
        lambda answer: tokens(6)(answer) and not text_of(answer).startswith("No"),
        {"messages": ANSWERED, "continue_final_message": True, "add_generation_prompt": False},
    ),
    Row(
        "`echo` of a chat",
        ECHO,
        CHAT,
        Refused("echo", code="unknown_parameter"),
        {"messages": ANSWERED, "continue_final_message": True, "echo": True},
        differs="`echo` is a parameter of completions of texts",
    ),
    Row(
        "`logit_bias` of the last token",
        BIAS,
        CHAT,
        tokens(6),
        {"logit_bias": {str(SIZE - 1): 1.0}},
    ),
    Row(
        "`logit_bias` of a token that is none",
        BIAS,
        CHAT,
        Refused("logit_bias", says=str(SIZE)),
        {"logit_bias": {str(SIZE + 1): 1.0}},
    ),
    Row(
        "`logit_bias` whose key is no number",
        BIAS,
        CHAT,
        Refused("logit_bias.not_a_token", says="integer"),
        {"logit_bias": {"not_a_token": 50}},
    ),
    Row(
        "`logit_bias` whose value is no number",
        BIAS,
        CHAT,
        Refused("logit_bias.1", says="number"),
        {"logit_bias": {"1": "much"}},
    ),
    Row(
        "`stop_token_ids` of the last token", STOPS, CHAT, tokens(6), {"stop_token_ids": [SIZE - 1]}
    ),
    Row(
        "`stop_token_ids` of a token that is none",
        STOPS,
        CHAT,
        Refused("stop_token_ids", says=str(SIZE)),
        {"stop_token_ids": [SIZE + 1]},
    ),
    Row(
        "`stop_token_ids` below 0",
        STOPS,
        CHAT,
        Refused("stop_token_ids[0]"),
        {"stop_token_ids": [-1]},
    ),
    Row("a body that is not JSON", BODIES, CHAT, Refused(None, says="JSON"), raw=b"not json{{{"),
    Row("a body that is a list", BODIES, CHAT, Refused(None), raw=b'["not", "an", "object"]'),
    Row("a body that is a number", BODIES, CHAT, Refused(None), raw=b"42"),
    Row("a body that is null", BODIES, CHAT, Refused(None), raw=b"null"),
    Row("an empty `cache_salt`", BODIES, CHAT, Refused("cache_salt"), {"cache_salt": ""}),
    Row(
        "a body called a form",
        KINDS,
        CHAT,
        tokens(6),
        headers={"content-type": "application/x-www-form-urlencoded"},
        differs="the body is read as JSON, as programs of other servers send it",
    ),
    Row("messages that are no list", WRONG, CHAT, Refused("messages"), {"messages": "not a list"}),
    Row(
        "no messages at all",
        WRONG,
        CHAT,
        Refused("messages", code="missing_required_parameter"),
        without=("messages",),
    ),
    Row(
        "thousands of wrong parts: the refusal stays short",
        WRONG,
        CHAT,
        Refused("messages[0].content[0].text"),
        {"messages": [{"role": "user", "content": [{"type": "text", "text": 1}] * 1000}]},
    ),
    Row(
        "a long text where a number is expected",
        WRONG,
        CHAT,
        Refused("max_tokens"),
        {"max_tokens": "A" * 100_000},
    ),
    Row(
        "scores of chosen tokens",
        CHOSEN,
        CHAT,
        Refused("logprob_token_ids", code="unknown_parameter"),
        {"logprobs": True, "logprob_token_ids": [1, 2]},
        differs="`top_logprobs` are the likeliest; a choice of tokens is not there",
    ),
    Row(
        "`return_tokens_as_token_ids`",
        (*CHOSEN, *IDS),
        CHAT,
        Refused("return_tokens_as_token_ids", code="unknown_parameter"),
        {"logprobs": True, "return_tokens_as_token_ids": True},
        differs="`bytes` of each token say what it is",
    ),
    Row("no messages", ERRORS, CHAT, Refused("messages"), {"messages": []}),
    Row(
        "another model", TESTED, CHAT, Refused("model", 404, "model_not_found"), {"model": "other"}
    ),
)
"""All of them."""
