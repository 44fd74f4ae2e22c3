"""PURE: where the patches of a Qwen2-VL image stand."""

import numpy as np
from numpy.typing import NDArray


def patch_positions(rows: int, columns: int, merge: int) -> NDArray[np.int64]:
    """Return row and column of each patch, int64 [rows x columns, 2], in the processor's order.

    Patches that are merged into one feature (`merge` x `merge`) come one after another.
    """
    grid = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), axis=-1)
    blocks = grid.reshape(rows // merge, merge, columns // merge, merge, 2)
    return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3, 4).reshape(-1, 2)).astype(np.int64)
