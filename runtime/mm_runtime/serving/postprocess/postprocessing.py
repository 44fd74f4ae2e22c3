"""The model `postprocessing`: tokens of one response to the text they add."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.postprocess.detokenize import text_delta
from mm_runtime.serving.tensors import Tensors

Outputs = dict[str, NDArray[Any]]


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
