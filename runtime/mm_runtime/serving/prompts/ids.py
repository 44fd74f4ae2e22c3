"""PURE: ids that a request names must be tokens of the model.

An id past the vocabulary is an index past the logits: on the Reference engine an error in the midst
of a step, in a kernel on a GPU whatever lies there. So it is refused before anything runs.
"""

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.prompts.tokens import TextCodec
from mm_runtime.serving.prompts.words import TokenWords
from mm_runtime.serving.tensors import Tensors, scalar

NO_ID = -1
"""No token: what upstream's client sends for an answer that only its length ends."""


def check_end(name: str, token: int | None, vocabulary_size: int) -> None:
    """Refuse an end or padding token that the model does not have; `NO_ID` is none."""
    if token is not None and not NO_ID <= token < vocabulary_size:
        raise RequestError(
            f"{name} is {token}; a token of the model, 0 to {vocabulary_size - 1}, is needed, or "
            f"{NO_ID} for none"
        )


def end_tensors(
    inputs: Tensors, codec: TextCodec, vocabulary_size: int
) -> dict[str, NDArray[np.int32]]:
    """Return end and padding token of a request, int32 [1, 1]: its own, or the checkpoint's."""
    end, pad = scalar(inputs, "END_ID"), scalar(inputs, "PAD_ID")
    check_end("end_id", end, vocabulary_size)
    check_end("pad_id", pad, vocabulary_size)
    return {
        "OUT_END_ID": np.array([[codec.end_id if end is None else end]], dtype=np.int32),
        "OUT_PAD_ID": np.array([[codec.pad_id if pad is None else pad]], dtype=np.int32),
    }


def check_words(name: str, sequences: TokenWords, vocabulary_size: int) -> None:
    """Refuse words with ids that are no tokens."""
    for token in (token for sequence in sequences for token in sequence):
        if not 0 <= token < vocabulary_size:
            raise RequestError(
                f"{name} holds id {token}; ids of the model's tokens, 0 to "
                f"{vocabulary_size - 1}, are needed"
            )
