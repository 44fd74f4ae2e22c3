"""Rows of completions of texts: prompts, samples, scores, streams, forms."""

from typing import Any

from support.vllm_requests.table import (
    QUESTION,
    TEXT,
    Refused,
    Row,
    choices,
    reasons_of,
    same,
    says,
    text_of,
    tokens,
)

TESTED = ("entrypoints/openai/completion/test_completion.py",)
PROMPTS = ("entrypoints/openai/completion/test_prompt_validation.py", *TESTED)
EMPTY = ("entrypoints/openai/completion/test_empty_prompt_list.py",)
OFFSETS = ("entrypoints/openai/completion/test_completion_text_offset.py",)
ERRORS = ("entrypoints/openai/completion/test_completion_error.py",)
LENGTHS = ("v1/e2e/test_context_length.py",)
WRONG = ("entrypoints/serve/exception_handling/test_validation_exception_handler.py",)
IDS = ("entrypoints/openai/basic/test_return_token_ids.py",)

A_BIAS = {"logit_bias": {str(ord("A")): 50}}
SAMPLED = {"temperature": 2, "seed": 42}


UNSCORED = "tokens of prompts have no scores; `logprobs` has those of the answer"


def _scores(answer: Any) -> bool:
    """Say whether each token is among the likeliest, which are counted by text, with its score."""
    scores = answer["choices"][0]["logprobs"]
    found = zip(scores["tokens"], scores["token_logprobs"], scores["top_logprobs"], strict=True)
    return len(scores["tokens"]) == 6 and all(
        1 <= len(likeliest) <= 5 and likeliest[token] == score == max(likeliest.values())
        for token, score, likeliest in found
    )


def _offsets(answer: Any, other: Any) -> bool:
    """Say whether a stream has the offsets of the plain answer."""
    streamed = [
        at
        for one in answer
        for choice in one["choices"]
        if choice["logprobs"]
        for at in choice["logprobs"]["text_offset"]
    ]
    plain: list[int] = other["choices"][0]["logprobs"]["text_offset"]
    return streamed == plain == list(range(6))


def _streams(answer: Any, other: Any) -> bool:
    return text_of(answer) == text_of(other) and reasons_of(answer) == ["length"]


def _many_streams(answer: Any) -> bool:
    texts = {text_of(answer, index) for index in range(3)}
    return len(texts) == 3 and reasons_of(answer) == ["length"] * 3


def _each_answered(answer: Any, second: Any) -> bool:
    return choices(2)(answer) and text_of(answer, 1) == text_of(second) != text_of(answer)


def _each_streamed(answer: Any, plain: Any) -> bool:
    """Say whether chunks of each prompt join to its answer, and usage of both comes last."""
    texts = [text_of(answer, index) for index in range(2)]
    return (
        texts == [text_of(plain, index) for index in range(2)]
        and reasons_of(answer) == ["length"] * 2
        and answer[-1]["usage"] == plain["usage"]
    )


def usages(answer: Any) -> list[Any]:
    """Return the usage of each chunk."""
    return [one.get("usage") for one in answer]


def usage_last(answer: Any) -> bool:
    """Say whether the last chunk alone has usage, and no choices."""
    *before, last = usages(answer)
    return not any(before) and last["completion_tokens"] == 6 and not answer[-1]["choices"]


def usage_always(answer: Any) -> bool:
    """Say whether each chunk has usage, and tokens are counted up."""
    found = usages(answer)
    counts = [one["completion_tokens"] for one in found if one]
    return all(found) and counts == sorted(counts) and counts[-1] == 6


STREAM: dict[str, Any] = {"stream": True}
ROWS = (
    Row("a prompt is answered; usage adds up", TESTED, TEXT, tokens(6)),
    Row("a prompt as a list of one text", EMPTY, TEXT, same, {"prompt": [QUESTION]}, {}),
    Row(
        "a prompt of token ids",
        PROMPTS,
        TEXT,
        lambda answer: tokens(6)(answer) and answer["usage"]["prompt_tokens"] == 3,
        {"prompt": [0, 0, 0]},
    ),
    Row(
        "two prompts in a request",
        TESTED,
        TEXT,
        _each_answered,
        {"prompt": [QUESTION, "no"]},
        {"prompt": "no"},
    ),
    Row(
        "two prompts as one stream",
        TESTED,
        TEXT,
        _each_streamed,
        {**STREAM, "prompt": [QUESTION, "no"], "stream_options": {"include_usage": True}},
        {"prompt": [QUESTION, "no"]},
    ),
    Row(
        "two prompts of token ids",
        TESTED,
        TEXT,
        lambda answer: choices(2)(answer) and answer["usage"]["prompt_tokens"] == 5,
        {"prompt": [[0, 0], [0, 0, 0]]},
    ),
    Row(
        "a prompt of token ids past the vocabulary",
        ERRORS,
        TEXT,
        Refused("prompt", says="none of the model's"),
        {"prompt": [1_000_000]},
    ),
    Row("an empty list of prompts", EMPTY, TEXT, Refused("prompt"), {"prompt": []}),
    Row("no prompt", PROMPTS, TEXT, Refused("prompt"), without=("prompt",)),
    Row("a prompt that is null", PROMPTS, TEXT, Refused("prompt"), {"prompt": None}),
    Row(
        "a prompt as embeddings",
        ("entrypoints/openai/completion/test_completion_with_prompt_embeds.py", *PROMPTS),
        TEXT,
        Refused("prompt_embeds", code="unknown_parameter"),
        {"prompt_embeds": "AAAA"},
        differs="no backend takes embeddings from clients",
    ),
    Row("three samples of a prompt", TESTED, TEXT, choices(3), {"n": 3, **SAMPLED}),
    Row("three samples as one stream", TESTED, TEXT, _many_streams, {**STREAM, "n": 3, **SAMPLED}),
    Row("a seed repeats an answer", TESTED, TEXT, same, SAMPLED, SAMPLED),
    Row(
        "beam search",
        TESTED,
        TEXT,
        Refused("use_beam_search", code="unknown_parameter"),
        {"use_beam_search": True, "n": 2},
        differs="beams are a property of an engine (`engine.maxBeamWidth`), not of a request",
    ),
    Row(
        "no scores unless requested",
        TESTED,
        TEXT,
        lambda answer: answer["choices"][0]["logprobs"] is None,
        {"logprobs": None},
    ),
    Row(
        "`logprobs: 0`",
        TESTED,
        TEXT,
        lambda answer: len(answer["choices"][0]["logprobs"]["token_logprobs"]) == 6,
        {"logprobs": 0},
    ),
    Row("`logprobs: 5`", TESTED, TEXT, _scores, {"logprobs": 5}),
    Row("`logprobs: 21`", TESTED, TEXT, Refused("logprobs", says="20"), {"logprobs": 21}),
    Row(
        "`logprobs: 30` of a stream",
        TESTED,
        TEXT,
        Refused("logprobs", says="20"),
        {**STREAM, "logprobs": 30},
    ),
    Row(
        "offsets of a stream with `stop`",
        OFFSETS,
        TEXT,
        _offsets,
        {**A_BIAS, **STREAM, "logprobs": 0, "stop": "\n\n"},
        {**A_BIAS, "logprobs": 0, "stop": "\n\n"},
    ),
    Row(
        "`echo`",
        TESTED,
        TEXT,
        lambda answer, other: text_of(answer) == QUESTION + text_of(other),
        {"echo": True},
        {},
    ),
    Row(
        "`echo` with `logprobs: 1`",
        (*TESTED, *IDS),
        TEXT,
        Refused("logprobs", says="`echo`"),
        {"echo": True, "logprobs": 1},
        differs=UNSCORED,
    ),
    Row(
        "`max_tokens: 0` with `echo`",
        (),
        TEXT,
        Refused("max_tokens"),
        {"echo": True, "max_tokens": 0},
        differs="the prompt alone, which its client has",
    ),
    Row("`max_tokens: 0`", (), TEXT, Refused("max_tokens"), {"max_tokens": 0}),
    Row(
        "`prompt_logprobs: 1`",
        TESTED,
        TEXT,
        Refused("prompt_logprobs", says="no scores"),
        {"prompt_logprobs": 1},
        differs=UNSCORED,
    ),
    Row(
        "`return_token_ids`",
        IDS,
        TEXT,
        Refused("return_token_ids", code="unknown_parameter"),
        {"return_token_ids": True},
        differs="refused by name; POST /tokenize gives the ids of a prompt",
    ),
    Row(
        "`truncate_prompt_tokens`",
        TESTED,
        TEXT,
        Refused("truncate_prompt_tokens", code="unknown_parameter"),
        {"truncate_prompt_tokens": 4},
        differs="a prompt is answered in full, or refused",
    ),
    Row(
        "a stream joins to the plain answer, one reason at its end",
        TESTED,
        TEXT,
        _streams,
        STREAM,
        {},
    ),
    Row(
        "`include_usage: false`",
        TESTED,
        TEXT,
        lambda answer: not any(usages(answer)),
        {**STREAM, "stream_options": {"include_usage": False}},
    ),
    Row(
        "empty `stream_options`",
        TESTED,
        TEXT,
        lambda answer: not any(usages(answer)),
        {**STREAM, "stream_options": {}},
    ),
    Row(
        "`include_usage: true`",
        TESTED,
        TEXT,
        usage_last,
        {**STREAM, "stream_options": {"include_usage": True}},
    ),
    Row(
        "`continuous_usage_stats` with `include_usage`",
        TESTED,
        TEXT,
        usage_always,
        {**STREAM, "stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    ),
    Row(
        "`continuous_usage_stats` alone",
        TESTED,
        TEXT,
        usage_always,
        {**STREAM, "stream_options": {"continuous_usage_stats": True}},
        differs="it acts without `include_usage`, too",
    ),
    *(
        Row(
            f"`stream_options` without a stream: `{name}: {'true' if value else 'null'}`",
            TESTED,
            TEXT,
            Refused("stream_options"),
            {"stream_options": {name: value}},
        )
        for name in ("include_usage", "continuous_usage_stats")
        for value in (True,)
    ),
    Row(
        "`include_usage: null`",
        TESTED,
        TEXT,
        Refused("stream_options.include_usage"),
        {"stream_options": {"include_usage": None}},
    ),
    Row(
        "a pattern that cannot be read",
        TESTED,
        TEXT,
        Refused("structured_outputs.regex"),
        {"structured_outputs": {"regex": "[.*"}},
    ),
    Row(
        "a grammar that cannot be read",
        TESTED,
        TEXT,
        Refused("structured_outputs.grammar"),
        {"structured_outputs": {"grammar": "root ::= nothing here"}},
    ),
    Row(
        "a JSON schema that cannot be read",
        TESTED,
        TEXT,
        Refused("response_format"),
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {
                    "name": "x",
                    "schema": {"type": "object", "properties": {"foo": "bar"}},
                },
            }
        },
    ),
    *(
        Row(
            f"`structured_outputs.{name}`",
            TESTED,
            TEXT,
            says(text),
            {"structured_outputs": {name: value}, "max_tokens": 12},
        )
        for name, value, text in (("json", '{"const": 12}', "12"), ("regex", "no", "no"))
    ),
    Row(
        "a prompt of token ids below 0",
        ERRORS,
        TEXT,
        Refused("prompt[0]", says="greater than or equal to 0"),
        {"prompt": [-1]},
    ),
    Row(
        "`response_format: json_schema` without a schema",
        ERRORS,
        TEXT,
        Refused("response_format.json_schema"),
        {"response_format": {"type": "json_schema"}},
    ),
    Row(
        "no model named",
        EMPTY,
        TEXT,
        Refused("model", code="missing_required_parameter"),
        without=("model",),
        differs="the name is required, as OpenAI has it; there the one model is meant",
    ),
    Row(
        "tokens that exceed the model's length",
        LENGTHS,
        TEXT,
        Refused("prompt", code="context_length_exceeded", says="1000014"),
        {"max_tokens": 1_000_000},
    ),
    Row(
        "a prompt that exceeds the model's length",
        LENGTHS,
        TEXT,
        Refused("prompt", code="context_length_exceeded"),
        {"prompt": "a" * 1800},
    ),
    Row(
        "`max_tokens` of a wrong value, -1", WRONG, TEXT, Refused("max_tokens"), {"max_tokens": -1}
    ),
    Row("a pattern acts", TESTED, TEXT, says("no!"), {"structured_outputs": {"regex": "no[!]"}}),
    Row("`stop` ends an answer before it", TESTED, TEXT, says(""), {**A_BIAS, "stop": ["AA"]}),
)
"""All of them."""
