"""`text_offset`: where the text of each token begins, the same of a stream and of a plain answer.

The model's tokens are bytes, so that most characters are made of several.
"""

from typing import Any

import pytest
from openai import OpenAI

from support.cases import cases

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

WORDS = {"structured_outputs": {"regex": "日本é[a-z]é𝄞x"}}
"""A pattern of characters of one to four bytes."""

SAMPLED: dict[str, Any] = {"temperature": 2, "max_tokens": 40, "seed": 3}
"""Noise: bytes of which many are no characters."""

OF_VLLM = {"structured_outputs", "skip_special_tokens"}
REPLACED = "\N{REPLACEMENT CHARACTER}"


@cases(
    "fields",
    {
        "characters": {**WORDS, "max_tokens": 40},
        "cut-in-a-character": {**WORDS, "max_tokens": 8},
        "stop": {**WORDS, "max_tokens": 40, "stop": "é𝄞"},
        "noise": SAMPLED,
        "noise-with-stops": {**SAMPLED, "stop": ["a", REPLACED * 4]},
        "noise-with-special-tokens": {**SAMPLED, "skip_special_tokens": False},
        "broken-ones": {**SAMPLED, "logit_bias": {"256": 8, "230": 8, "239": 6}},
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
