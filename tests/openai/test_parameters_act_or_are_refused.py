"""Every parameter at every endpoint that knows it: it changes the answer as it says, or is refused.

Weights are random and tokens bytes: a bias makes an answer readable, greedy ones repeat.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError, OpenAI

from mm_runtime.gateway.api.parameters import (
    NOT_SERVED,
    PARAMETERS,
    RESPONSE_PARAMETERS,
    endpoints_of,
)
from support import calling_llava
from support.vllm_requests import ROWS as SENT
from support.vllm_requests.table import CHAT, PLAIN, RESPONSE, TEXT, Refused

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

BOTH, ALL = (CHAT, TEXT), (CHAT, TEXT, RESPONSE)
LETTER_A, LETTER_B = str(ord("A")), str(ord("B"))


@dataclass(frozen=True)
class Answer:
    """What all endpoints say, each in its own words."""

    text: str
    tokens: int
    prompt_tokens: int
    cut: bool
    body: Any


def query(client: OpenAI, endpoint: str, fields: Mapping[str, Any]) -> Answer:
    body = {"model": "tiny", "temperature": 0, **PLAIN[endpoint], **fields}
    path = endpoint.removeprefix("/v1")
    found: Any = client.post(path, body=body, cast_to=object)
    usage = found["usage"]
    if endpoint == RESPONSE:
        parts = [part for item in found["output"] for part in item.get("content", ())]
        text = "".join(part["text"] for part in parts)
        cut = found["status"] == "incomplete"
        return Answer(text, usage["output_tokens"], usage["input_tokens"], cut, found)
    choice = found["choices"][0]
    text = choice["text"] if endpoint == TEXT else choice["message"]["content"]
    cut = choice["finish_reason"] == "length"
    return Answer(text, usage["completion_tokens"], usage["prompt_tokens"], cut, found)


@dataclass(frozen=True)
class Row:
    """A parameter that acts.

    Attributes:
        fields: with it.
        acts: whether an answer is what it should be: (without the parameter, with it).
        given: fields of both.
    """

    name: str
    endpoints: tuple[str, ...]
    fields: Mapping[str, Any]
    acts: Callable[[Answer, Answer], bool]
    given: Mapping[str, Any] = field(default_factory=dict)


def differs(one: Answer, other: Answer) -> bool:
    return one.text != other.text


def same(one: Answer, other: Answer) -> bool:
    return one.text == other.text


def says(text: str) -> Callable[[Answer, Answer], bool]:
    return lambda _, answer: answer.text == text


def counts(tokens: int) -> Callable[[Answer, Answer], bool]:
    return lambda _, answer: (answer.tokens, answer.cut) == (tokens, True)


A_BIAS = {"logit_bias": {LETTER_A: 50}}
AB_BIAS = {"logit_bias": {LETTER_A: 50, LETTER_B: 49}}
END_BIAS = {"logit_bias": {str(calling_llava.END): 100}}
SAMPLED = {"temperature": 2, "seed": 1}
SCHEMA = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}
CLOSED = {**SCHEMA, "additionalProperties": False}
CLOSED_TEXT = '{"a":1}'
LABELS = {"metadata": {"a": "b"}, "safety_identifier": "s", "prompt_cache_key": "k"}
FORM = {"type": "json_schema", "json_schema": {"name": "x", "schema": CLOSED}}


def is_json(one: Answer, other: Answer) -> bool:
    begun = "".join(other.text.split())
    return begun[:4] == '{"a"' and CLOSED_TEXT.startswith(begun) and differs(one, other)


ROWS = [
    Row(
        "input",
        (RESPONSE,),
        {"input": "?"},
        lambda one, other: other.prompt_tokens < one.prompt_tokens,
    ),
    Row("max_tokens", BOTH, {"max_tokens": 3}, counts(3)),
    Row("max_output_tokens", (RESPONSE,), {"max_output_tokens": 3}, counts(3)),
    Row("temperature", ALL, {"temperature": 2}, differs),
    Row("top_p", ALL, {"temperature": 2, "top_p": 1e-6}, same),
    Row("top_k", BOTH, {**SAMPLED, "top_k": 1}, same),
    Row("min_p", BOTH, {**SAMPLED, "min_p": 1}, same),
    Row("seed", BOTH, {"seed": 2}, differs, SAMPLED),
    Row("seed", BOTH, {"seed": 1}, same, SAMPLED),
    Row("logit_bias", BOTH, A_BIAS, says("A" * 6)),
    Row(
        "presence_penalty",
        BOTH,
        {"presence_penalty": 2},
        lambda _, other: "AB" in other.text,
        AB_BIAS,
    ),
    Row(
        "frequency_penalty",
        BOTH,
        {"frequency_penalty": 2},
        lambda _, other: "AB" in other.text,
        AB_BIAS,
    ),
    Row("repetition_penalty", BOTH, {"repetition_penalty": 100}, differs, AB_BIAS),
    Row(
        "min_tokens",
        BOTH,
        {"min_tokens": 3},
        lambda one, other: (one.tokens, other.tokens) == (0, 3),
        END_BIAS,
    ),
    Row(
        "ignore_eos",
        BOTH,
        {"ignore_eos": True},
        lambda one, other: (one.tokens, other.tokens) == (0, 6),
        END_BIAS,
    ),
    Row("stop", BOTH, {"stop": "AA"}, says(""), A_BIAS),
    Row("stop_token_ids", BOTH, {"stop_token_ids": [ord("A")]}, says(""), A_BIAS),
    Row(
        "skip_special_tokens",
        BOTH,
        {"skip_special_tokens": False},
        lambda one, other: (one.text, other.text) == ("", "<s>" * 6),
        {"logit_bias": {str(calling_llava.BEGIN): 100}},
    ),
    Row("response_format", BOTH, {"response_format": FORM}, is_json),
    Row(
        "chat_template_kwargs",
        (CHAT,),
        {"chat_template_kwargs": {"style": "calm"}},
        lambda one, other: other.prompt_tokens == one.prompt_tokens + 4,
    ),
    *(Row(name, (CHAT, RESPONSE), {name: value}, same) for name, value in LABELS.items()),
    Row("user", ALL, {"user": "ann"}, same),
    Row("cache_salt", BOTH, {"cache_salt": "tenant"}, same),
]
STREAMED = {"stream", "stream_options", "parallel_tool_calls", "model"}
"""Shown by tests of their own below, and calls in a row where tools are tested."""


Plain = Callable[[str, Mapping[str, Any]], Answer]


@pytest.fixture(scope="module")
def plain(client: OpenAI) -> Plain:
    """Answers without the parameter: one for all rows that compare with the same."""
    known: dict[str, Answer] = {}

    def answer(endpoint: str, given: Mapping[str, Any]) -> Answer:
        key = json.dumps([endpoint, given])
        if key not in known:
            known[key] = query(client, endpoint, given)
        return known[key]

    return answer


@pytest.mark.parametrize(
    ("row", "endpoint"),
    [
        pytest.param(row, endpoint, id=f"{row.name}-{number}-{endpoint}")
        for number, row in enumerate(ROWS)
        for endpoint in row.endpoints
    ],
)
def test_what_acts(client: OpenAI, plain: Plain, row: Row, endpoint: str) -> None:
    without = plain(endpoint, row.given)
    answer = query(client, endpoint, {**row.given, **row.fields})
    assert row.acts(without, answer), f"{without}\n{answer}"


REFUSED: list[tuple[str, str, Any]] = [
    *((endpoint, "model", 7) for endpoint in ALL),
    *((CHAT, name, [[7]]) for name in sorted(NOT_SERVED) if CHAT in endpoints_of(name)),
    (TEXT, "suffix", "!"),
    (TEXT, "best_of", 2),
    *((RESPONSE, name, [[7]]) for name, one in RESPONSE_PARAMETERS.items() if not one.acts),
    *((endpoint, "frequency_penalty", 3) for endpoint in BOTH),
    *((endpoint, "unheard_of", 1) for endpoint in ALL),
    (CHAT, "mm_processor_kwargs", {"max_pixels": 3136}),
    (CHAT, "top_logprobs", 2),
    (TEXT, "prompt", []),
    (RESPONSE, "top_k", 3),
]


@pytest.mark.parametrize(
    ("endpoint", "name", "value"), [pytest.param(*one, id=f"{one[1]}-{one[0]}") for one in REFUSED]
)
def test_what_is_refused(client: OpenAI, endpoint: str, name: str, value: object) -> None:
    """400 with OpenAI's error object, whose `param` is the parameter."""
    with pytest.raises(BadRequestError) as refusal:
        query(client, endpoint, {name: value})
    assert (refusal.value.param or "").partition(".")[0] == name
    assert refusal.value.type == "invalid_request_error"
    assert name in refusal.value.message


@pytest.mark.parametrize("endpoint", ALL)
def test_other_models_are_not_found(client: OpenAI, endpoint: str) -> None:
    with pytest.raises(NotFoundError) as refusal:
        query(client, endpoint, {"model": "other"})
    assert refusal.value.code == "model_not_found"


def test_streams(client: OpenAI) -> None:
    """Deltas join to the complete text; every chunk has a text, and usage where it is wanted."""
    body: dict[str, Any] = {"model": "tiny", "temperature": 0, **PLAIN[CHAT]}
    options = {"include_usage": True, "continuous_usage_stats": True}
    with client.chat.completions.create(**body, stream=True, stream_options=options) as stream:
        chunks = list(stream)
    joined = "".join(chunk.choices[0].delta.content for chunk in chunks if chunk.choices)
    assert joined == query(client, CHAT, {}).text
    assert [chunk.usage.completion_tokens for chunk in chunks][-1] == 6
    requested: dict[str, Any] = {"model": "tiny", "temperature": 0, **PLAIN[RESPONSE]}
    with client.responses.create(**requested, stream=True) as got:
        events = list(got)
    joined = "".join(one.delta for one in events if one.type == "response.output_text.delta")
    assert joined == query(client, RESPONSE, {}).text
    assert events[-1].type == "response.incomplete"


def test_the_table_is_complete() -> None:
    """Each parameter of the docs' page is here or in vLLM's, at each endpoint that knows it."""
    shown = {(endpoint, row.name) for row in ROWS for endpoint in row.endpoints}
    shown |= {
        (row.path, name)
        for row in SENT
        for name in (*row.fields, *PLAIN.get(row.path, ()))
        if not isinstance(row.here, Refused)
    }
    shown |= {(endpoint, name) for endpoint, name, _ in REFUSED}
    known = {(endpoint, name) for name in PARAMETERS for endpoint in endpoints_of(name)}
    known |= {(RESPONSE, name) for name in RESPONSE_PARAMETERS}
    assert not sorted(one for one in known - shown if one[1] not in STREAMED)
