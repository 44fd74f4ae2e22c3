"""Stop and bad words survive the trip through TensorRT-LLM's tensor."""

import numpy as np
import pytest

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.prompts.words import pack_words, unpack_words
from support.cases import cases


@cases(
    "words expected",
    {
        "one token": ([[5]], [[5], [1]]),
        "two sequences": ([[5], [7, 8]], [[5, 7, 8], [1, 3, -1]]),
        "empty sequence left out": ([[5], [], [7]], [[5, 7], [1, 2]]),
        "none": ([], [[0], [-1]]),
    },
)
def test_layout_is_tensorrt_llms(words: list[list[int]], expected: list[list[int]]) -> None:
    """Row 0 holds the ids, row 1 the end offsets, then -1."""
    assert expected == pack_words(words).tolist()


@cases("words", {"several lengths": ((5,), (7, 8), (1, 2, 3)), "one": ((9,),), "none": ()})
def test_reading_undoes_writing(words: tuple[tuple[int, ...], ...]) -> None:
    assert words == unpack_words(pack_words(words))


@cases(
    "packed message",
    {
        "one row": ([[1, 2, 3]], "expected \\[2, n\\]"),
        "falling offsets": ([[1, 2], [2, 1]], "offsets must rise"),
        "offset past the row": ([[1, 2], [5, -1]], "within the row"),
    },
)
def test_other_tensors_are_refused(packed: list[list[int]], message: str) -> None:
    """A client's own tensor is checked before it is used."""
    with pytest.raises(RequestError, match=message):
        unpack_words(np.array(packed, dtype=np.int32))
