"""Rows of completions of texts: prompts, samples, scores, streams, forms."""

from functools import partial
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
    return [one.get("usage") for one in answer]


def usage_last(answer: Any) -> bool:
    *before, last = usages(answer)
    return not any(before) and last["completion_tokens"] == 6 and not answer[-1]["choices"]


def usage_always(answer: Any) -> bool:
    found = usages(answer)
    counts = [one["completion_tokens"] for one in found if one]
    return all(found) and counts == sorted(counts) and counts[-1] == 6


STREAM: dict[str, Any] = {"stream": True}
NO_IDS = Refused("prompt", says="send the text of ids")
TEXTS_ONLY = "prompts are texts, which the checkpoint's tokenizer reads"
_tested = partial(Row, TESTED, TEXT)
_empty = partial(Row, EMPTY, TEXT)
_prompts = partial(Row, PROMPTS, TEXT)
_errors = partial(Row, ERRORS, TEXT)

ROWS = (
    _tested("a prompt is answered; usage adds up", tokens(6)),
    _empty("a prompt as a list of one text", same, {"prompt": [QUESTION]}, {}),
    _prompts("a prompt of token ids", NO_IDS, {"prompt": [0, 0, 0]}, differs=TEXTS_ONLY),
    _tested(
        "two prompts in a request", _each_answered, {"prompt": [QUESTION, "no"]}, {"prompt": "no"}
    ),
    _tested(
        "two prompts as one stream",
        _each_streamed,
        {**STREAM, "prompt": [QUESTION, "no"], "stream_options": {"include_usage": True}},
        {"prompt": [QUESTION, "no"]},
    ),
    _tested("two prompts of token ids", NO_IDS, {"prompt": [[0], [0, 0]]}, differs=TEXTS_ONLY),
    _empty("an empty list of prompts", Refused("prompt"), {"prompt": []}),
    _prompts("no prompt", Refused("prompt"), without=("prompt",)),
    Row(
        ("entrypoints/openai/completion/test_completion_with_prompt_embeds.py", *PROMPTS),
        TEXT,
        "a prompt as embeddings",
        Refused("prompt_embeds", code="unknown_parameter"),
        {"prompt_embeds": "AAAA"},
        differs="no backend takes embeddings from clients",
    ),
    _tested("three samples of a prompt", choices(3), {"n": 3, **SAMPLED}),
    _tested("three samples as one stream", _many_streams, {**STREAM, "n": 3, **SAMPLED}),
    _tested("a seed repeats an answer", same, SAMPLED, SAMPLED),
    _tested(
        "beam search",
        Refused("use_beam_search", code="unknown_parameter"),
        {"use_beam_search": True, "n": 2},
        differs="beams are a property of an engine (`engine.maxBeamWidth`), not of a request",
    ),
    _tested(
        "no scores unless requested",
        lambda answer: answer["choices"][0]["logprobs"] is None,
        {"logprobs": None},
    ),
    _tested(
        "`logprobs: 0`",
        lambda answer: len(answer["choices"][0]["logprobs"]["token_logprobs"]) == 6,
        {"logprobs": 0},
    ),
    _tested("`logprobs: 5`", _scores, {"logprobs": 5}),
    _tested("`logprobs: 21`", Refused("logprobs", says="20"), {"logprobs": 21}),
    Row(
        OFFSETS,
        TEXT,
        "offsets of a stream with `stop`",
        _offsets,
        {**A_BIAS, **STREAM, "logprobs": 0, "stop": "\n\n"},
        {**A_BIAS, "logprobs": 0, "stop": "\n\n"},
    ),
    _tested(
        "`echo`",
        Refused("echo", code="unknown_parameter"),
        {"echo": True},
        differs="the prompt is the client's own",
    ),
    _tested(
        "`prompt_logprobs: 1`",
        Refused("prompt_logprobs", says="no scores"),
        {"prompt_logprobs": 1},
        differs=UNSCORED,
    ),
    Row(
        IDS,
        TEXT,
        "`return_token_ids`",
        Refused("return_token_ids", code="unknown_parameter"),
        {"return_token_ids": True},
        differs="refused by name; the checkpoint's tokenizer gives the ids of a prompt",
    ),
    _tested(
        "`truncate_prompt_tokens`",
        Refused("truncate_prompt_tokens", code="unknown_parameter"),
        {"truncate_prompt_tokens": 4},
        differs="a prompt is answered in full, or refused",
    ),
    _tested("a stream joins to the plain answer, one reason at its end", _streams, STREAM, {}),
    _tested(
        "empty `stream_options`",
        lambda answer: not any(usages(answer)),
        {**STREAM, "stream_options": {}},
    ),
    _tested(
        "`continuous_usage_stats` alone",
        usage_always,
        {**STREAM, "stream_options": {"continuous_usage_stats": True}},
        differs="it acts without `include_usage`, too",
    ),
    _tested(
        "`include_usage: null`",
        Refused("stream_options.include_usage"),
        {"stream_options": {"include_usage": None}},
    ),
    _tested(
        "a pattern that cannot be read",
        Refused("structured_outputs.regex"),
        {"structured_outputs": {"regex": "[.*"}},
    ),
    _tested(
        "a grammar that cannot be read",
        Refused("structured_outputs.grammar"),
        {"structured_outputs": {"grammar": "root ::= nothing here"}},
    ),
    _tested(
        "a JSON schema that cannot be read",
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
    _empty(
        "no model named",
        Refused("model", code="missing_required_parameter"),
        without=("model",),
        differs="the name is required, as OpenAI has it; there the one model is meant",
    ),
    Row(
        LENGTHS,
        TEXT,
        "tokens that exceed the model's length",
        Refused("prompt", code="context_length_exceeded", says="1000014"),
        {"max_tokens": 1_000_000},
    ),
    Row(
        LENGTHS,
        TEXT,
        "a prompt that exceeds the model's length",
        Refused("prompt", code="context_length_exceeded"),
        {"prompt": "a" * 1800},
    ),
    _tested("a pattern acts", says("no!"), {"structured_outputs": {"regex": "no[!]"}}),
    _tested("`stop` ends an answer before it", says(""), {**A_BIAS, "stop": ["AA"]}),
)
"""All of them."""
