"""A bias is a weight for each word; anything else is refused, not passed over."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.prompts.tokens import TextCodec
from mm_runtime.serving.prompts.word_tensors import bias_tensor
from support.cases import cases
from support.tiny_llava import CHECKPOINT, VOCABULARY


def bias(words: list[str], weights: list[float] | None) -> dict[str, NDArray[Any]]:
    inputs = {"EMBEDDING_BIAS_WORDS": np.array([[word.encode() for word in words]], np.object_)}
    given = {} if weights is None else {"EMBEDDING_BIAS_WEIGHTS": np.array([weights], np.float32)}
    return bias_tensor({**inputs, **given}, TextCodec(CHECKPOINT), VOCABULARY)


def test_weights_lie_at_their_words() -> None:
    """One number for each token of the vocabulary, 0 but for the words' own."""
    found = bias(["red", "blue"], [2.5, -1.0])["EMBEDDING_BIAS"]
    assert (found.shape, sorted(found[found != 0].tolist())) == ((1, VOCABULARY), [-1.0, 2.5])


def test_nothing_is_nothing() -> None:
    """A request without biases has no tensor."""
    assert bias([], None) == bias([], []) == {}


@cases(
    "words weights",
    {
        "words-alone": (["red"], None),
        "weights-alone": ([], [1.0]),
        "too-many": (["red"], [1.0, 2.0]),
    },
)
def test_each_word_has_a_weight(words: list[str], weights: list[float] | None) -> None:
    with pytest.raises(RequestError, match=f"has {len(words)} words .* send one for each word"):
        bias(words, weights)
