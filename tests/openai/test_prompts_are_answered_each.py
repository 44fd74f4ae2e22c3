"""Prompts are answered each, their tokens at their places."""

from typing import Any

import pytest
from openai import BadRequestError, OpenAI

from support.cases import cases

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

PROMPTS = ["Will it rain?", "What color is it?", "no"]
GIVEN: dict[str, Any] = {"model": "tiny", "max_tokens": 6, "temperature": 0}
SAMPLED: dict[str, Any] = {**GIVEN, "temperature": 0.05, "seed": 7}
"""Logits of random weights are close together: at higher temperatures the seed alone decides."""


def test_each_is_answered_as_it_is_alone(client: OpenAI) -> None:
    alone = [client.completions.create(**GIVEN, prompt=prompt) for prompt in PROMPTS]
    together = client.completions.create(**GIVEN, prompt=PROMPTS)
    texts = [one.choices[0].text for one in alone]
    assert len(set(texts)) == len(texts)
    assert [(one.index, one.text) for one in together.choices] == [*enumerate(texts)]
    assert together.usage is not None
    for field in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert getattr(together.usage, field) == sum(getattr(one.usage, field) for one in alone)


def test_samples_of_a_prompt_stand_beside_each_other(client: OpenAI) -> None:
    """`n` of the first prompt, `n` of the second; the prompt's tokens count once."""
    alone = [client.completions.create(**SAMPLED, prompt=one, n=2) for one in PROMPTS]
    together = client.completions.create(**SAMPLED, prompt=PROMPTS, n=2)
    texts = [choice.text for one in alone for choice in one.choices]
    assert len(set(texts)) == len(texts)
    assert [(one.index, one.text) for one in together.choices] == [*enumerate(texts)]
    assert together.usage is not None
    assert together.usage.prompt_tokens == sum(
        one.usage.prompt_tokens for one in alone if one.usage
    )


def test_scores(client: OpenAI) -> None:
    """Scores are those of an answer's own tokens."""
    plain = client.completions.create(**GIVEN, prompt=PROMPTS, logprobs=0)
    for choice in plain.choices:
        assert choice.logprobs is not None
        assert "".join(choice.logprobs.tokens or ()) == choice.text


def test_a_stream_says_which(client: OpenAI) -> None:
    """Chunks of each index join to its answer; usage of all comes last."""
    plain = client.completions.create(**GIVEN, prompt=PROMPTS, n=2)
    streamed = client.completions.create(
        **GIVEN,
        prompt=PROMPTS,
        n=2,
        stream=True,
        stream_options={"include_usage": True, "continuous_usage_stats": True},  # type: ignore[typeddict-unknown-key]
    )
    *chunks, last = streamed
    texts = dict.fromkeys(range(6), "")
    reasons = []
    for chunk in chunks:
        (choice,) = chunk.choices
        texts[choice.index] += choice.text
        reasons += [choice.index] if choice.finish_reason else []
    assert [*texts.values()] == [one.text for one in plain.choices]
    assert sorted(reasons) == [*range(6)]
    assert not last.choices
    assert last.usage == plain.usage
    counts = [chunk.usage.completion_tokens for chunk in chunks if chunk.usage]
    assert len(counts) == len(chunks)
    assert (counts, counts[-1]) == (sorted(counts), 36)


@cases(
    "fields param says",
    {
        "none": ({"prompt": []}, "prompt", "at least 1 item"),
        "empty": ({"prompt": ["a", ""]}, "prompt[1]", "at least 1 character"),
        "null": ({"prompt": ["a", None]}, "prompt[1]", "string"),
        "image": ({"prompt": ["a", "<image>"]}, "prompt[1]", "<image>"),
        "too-long": ({"prompt": ["a", "b" * 1600]}, "prompt[1]", "1536"),
        "many": ({"prompt": ["a"] * 17}, "prompt", "at most 16 answers"),
        "with-n": ({"prompt": ["a"] * 6, "n": 3}, "prompt", "6 prompts with 3"),
    },
)
def test_one_that_is_wrong_refuses_all(
    client: OpenAI, fields: dict[str, Any], param: str, says: str
) -> None:
    with pytest.raises(BadRequestError) as refusal:
        client.completions.create(**GIVEN, **fields)
    assert refusal.value.param == param
    assert says in refusal.value.message


@cases("prompt", {"one": [1, 2], "several": [[1], [2]], "among-texts": ["a", 1]})
def test_ids_of_tokens_are_refused(client: OpenAI, prompt: Any) -> None:
    with pytest.raises(BadRequestError, match="send the text of ids") as refusal:
        client.completions.create(**GIVEN, prompt=prompt)
    assert (refusal.value.param, refusal.value.type) == ("prompt", "invalid_request_error")


WORDS = {"structured_outputs": {"regex": "日本é[a-z]é𝄞x"}}
"""A pattern of characters of one to four bytes."""

PLACES_SAMPLED: dict[str, Any] = {"temperature": 2, "max_tokens": 40, "seed": 3}
"""Noise: bytes of which many are no characters."""

OF_VLLM = {"structured_outputs", "skip_special_tokens"}
REPLACED = "\N{REPLACEMENT CHARACTER}"


@cases(
    "fields",
    {
        "characters": {**WORDS, "max_tokens": 40},
        "cut-in-a-character": {**WORDS, "max_tokens": 8},
        "stop": {**WORDS, "max_tokens": 40, "stop": "é𝄞"},
        "noise": PLACES_SAMPLED,
        "noise-with-stops": {**PLACES_SAMPLED, "stop": ["a", REPLACED * 4]},
        "noise-with-special-tokens": {**PLACES_SAMPLED, "skip_special_tokens": False},
        "broken-ones": {**PLACES_SAMPLED, "logit_bias": {"256": 8, "230": 8, "239": 6}},
    },
)
def test_offsets_are_places_in_the_text(client: OpenAI, fields: dict[str, Any]) -> None:
    """A token that is no part of a character is where its offset says; a part begins with it."""
    given = {
        "model": "tiny",
        "prompt": "日本 e\u0301",
        "logprobs": 0,
        "temperature": 0,
        **{name: value for name, value in fields.items() if name not in OF_VLLM},
        "extra_body": {name: value for name, value in fields.items() if name in OF_VLLM},
    }
    plain = client.completions.create(**given).choices[0]
    stream = client.completions.create(**given, stream=True)
    pieces = [chunk.choices[0] for chunk in stream if chunk.choices]
    assert "".join(one.text for one in pieces) == plain.text
    assert plain.logprobs is not None
    tokens, offsets = plain.logprobs.tokens or [], plain.logprobs.text_offset or []
    for name in ("tokens", "text_offset"):
        joined = [value for one in pieces if one.logprobs for value in getattr(one.logprobs, name)]
        assert joined == getattr(plain.logprobs, name)
    assert offsets == sorted(offsets)
    assert tokens
    for token, offset in zip(tokens, offsets, strict=True):
        if len(token) == 1 and token != REPLACED:
            assert plain.text[offset] == token
    if fields == {**WORDS, "max_tokens": 40}:
        assert offsets == [0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 4, 5, 5, 5, 5, 6]
