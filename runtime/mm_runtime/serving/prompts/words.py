"""Stop and bad words as the tensor TensorRT-LLM takes them.

A list of token sequences travels as int32 [2, n]: row 0 holds all ids one after another, row 1 the
end offset of each sequence, then -1. Example: [[5], [7, 8]] -> [[5, 7, 8], [1, 3, -1]].
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.errors import RequestError

PADDING = -1
"""Value of an offset that ends no sequence."""

ROWS = 2
"""Ids and offsets."""

TokenWords = tuple[tuple[int, ...], ...]


def pack_words(sequences: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    """Return int32 [2, n] for the sequences; empty sequences are left out."""
    kept = [list(word) for word in sequences if len(word)]
    ids = [token for word in kept for token in word]
    packed = np.full((ROWS, max(1, len(ids))), PADDING, dtype=np.int32)
    packed[0, :] = 0
    packed[0, : len(ids)] = ids
    packed[1, : len(kept)] = np.cumsum([len(word) for word in kept], dtype=np.int32)
    return packed


def unpack_words(packed: NDArray[np.int32]) -> TokenWords:
    """Return the sequences of an int32 [2, n] tensor.

    Raises:
        RequestError: another shape, or offsets that do not rise within the row of ids.
    """
    if packed.ndim != ROWS or packed.shape[0] != ROWS:
        raise RequestError(f"word list: got shape {list(packed.shape)}, expected [2, n]")
    ids, offsets = packed.tolist()
    words: list[tuple[int, ...]] = []
    start = 0
    for end in offsets:
        if end == PADDING:
            break
        if not start < end <= len(ids):
            raise RequestError(
                f"word list: offset {end} after {start} in a row of {len(ids)} ids; "
                "offsets must rise and stay within the row"
            )
        words.append(tuple(ids[start:end]))
        start = end
    return tuple(words)
