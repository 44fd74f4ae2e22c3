"""The model `postprocessing`: tokens of one response to the text they add.

The pieces of one answer, joined, are exactly the text of all its tokens: spaces included, and a
character that spans several tokens appears once it is complete.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.tensors import Tensors

Outputs = dict[str, NDArray[Any]]

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""What a decoder writes for bytes that are no complete character yet."""


def write_text(decode: Callable[[Sequence[int]], str], inputs: Tensors) -> Outputs:
    """Return `OUTPUT`, one string a beam: the text that `TOKENS_BATCH` adds to the answer.

    `inputs`: `TOKENS_BATCH` [1, beams, n], `SEQUENCE_LENGTH` [1, beams], and when the engine
    streams `PREVIOUS_TOKENS` [1, beams, n] (-1: none) and `IS_LAST` [1, 1].

    Raises:
        RequestError: a required tensor is missing.
    """
    for name in ("TOKENS_BATCH", "SEQUENCE_LENGTH"):
        if name not in inputs:
            raise RequestError(f"{name} is missing")
    last = bool(inputs["IS_LAST"].all()) if "IS_LAST" in inputs else True
    beams = zip(
        inputs["TOKENS_BATCH"][0].tolist(),
        inputs["SEQUENCE_LENGTH"].reshape(-1).tolist(),
        _previous(inputs),
        strict=True,
    )
    pieces = [
        text_delta(decode, previous, tokens[:length], last=last)
        for tokens, length, previous in beams
    ]
    return {"OUTPUT": np.array([[piece.encode() for piece in pieces]], dtype=np.object_)}


def _previous(inputs: Tensors) -> list[list[int]]:
    if "PREVIOUS_TOKENS" not in inputs:
        return [[] for _ in inputs["TOKENS_BATCH"][0]]
    return [[i for i in beam if i >= 0] for beam in inputs["PREVIOUS_TOKENS"][0].tolist()]


def text_delta(
    decode: Callable[[Sequence[int]], str],
    previous: Sequence[int],
    new: Sequence[int],
    *,
    last: bool,
) -> str:
    """Return the text that `new` adds to what was already given out for `previous`.

    Decoding starts at the first token each time: what a token adds depends on its neighbours. Costs
    are quadratic in the answer's length and stay under a millisecond for thousands of tokens.

    `last`: give out an incomplete character too, because nothing can complete it.
    """
    text = decode([*previous, *new])
    given = _complete(decode(previous)) if previous else ""
    return (text if last else _complete(text))[len(given) :]


def _complete(text: str) -> str:
    return text.rstrip(REPLACEMENT)
