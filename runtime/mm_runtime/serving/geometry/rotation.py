"""PURE: Qwen2-VL's positions: text counts on, an image's features have time, row and column.

Later versions count time in seconds: frames of a slow video are further apart than those of a fast
one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_api.documents.model_facts import ModelFacts

SECOND_PER_GRID_TS = "SECOND_PER_GRID_TS"
"""Output of `preprocessing`, float32 [media]: seconds from one pair of frames to the next."""

SECONDS_PER_GRID = 1.0
"""For a video of unknown length: two frames a second, which the checkpoints' own processors sample.
An image has one frame, and any value."""


def reads_times(facts: ModelFacts) -> bool:
    """Return whether positions of frames follow from their times."""
    return facts.vision is not None and facts.vision.tokens_per_second is not None


@dataclass(frozen=True)
class Rotation:
    """Constants of a language model's rotary embedding."""

    base: float
    sections: tuple[int, ...]
    """Frequencies that turn with time, row and column, one after another."""

    head_size: int

    @classmethod
    def of(cls, config: dict[str, Any], head_size: int) -> "Rotation":
        """Read them from config.json, in whichever of its places they are."""
        text = config.get("text_config") or config
        rope = text.get("rope_parameters") or text.get("rope_scaling") or {}
        base = rope.get("rope_theta", text.get("rope_theta", 1e6))
        return cls(float(base), tuple(rope.get("mrope_section", (16, 24, 24))), head_size)

    def values(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return cosine and sine, float32 [n, frequencies, 2], of positions int64 [3, n]."""
        steps = np.arange(0, self.head_size, 2, dtype=np.float32) / np.float32(self.head_size)
        frequencies = np.float32(1) / np.float32(self.base) ** steps
        axes = np.repeat(np.arange(len(self.sections)) % 3, self.sections)
        angles = positions[axes].T.astype(np.float32) * frequencies
        return np.stack((np.cos(angles), np.sin(angles)), axis=-1)


def positions_of(
    virtual: NDArray[np.bool_],
    blocks: Sequence[tuple[int, int, int]],
    intervals: Sequence[float] = (),
) -> tuple[NDArray[np.int64], int]:
    """Return three coordinates of each token, int64 [3, n], and what follows less the count.

    What follows continues after rows and columns, also where frames are further ahead: so do
    transformers' classes.

    Args:
        virtual: which tokens of the prompt are features of images.
        blocks: frames, rows and columns of features of each image, in the prompt's order.
        intervals: positions from one frame of a block to the next, rounded down for each; empty:
            one.
    """
    found = np.zeros((3, len(virtual)), dtype=np.int64)
    at = following = 0
    waiting = list(zip(blocks, intervals or (1.0,) * len(blocks), strict=True))
    while at < len(virtual):
        if virtual[at]:
            (time, rows, columns), interval = waiting.pop(0)
            count = time * rows * columns
            places = np.indices((time, rows, columns)).reshape(3, -1)
            places[0] = (places[0].astype(np.float32) * np.float32(interval)).astype(np.int64)
            found[:, at : at + count] = places + following
            at += count
            following += max(rows, columns)
        else:
            found[:, at] = following
            at += 1
            following += 1
    return found, following - len(virtual)


def rotate(
    virtual: NDArray[np.bool_],
    blocks: Sequence[tuple[int, int, int]],
    rotation: Rotation,
    intervals: Sequence[float] = (),
) -> tuple[NDArray[np.float32], int]:
    """Return the rotation of a prompt, flat, and the delta of the positions after it."""
    positions, delta = positions_of(virtual, blocks, intervals)
    return rotation.values(positions).reshape(-1), delta


def patch_positions(rows: int, columns: int, merge: int) -> NDArray[np.int64]:
    """Return row and column of each patch, int64 [rows x columns, 2], in the processor's order.

    Patches that are merged into one feature (`merge` x `merge`) come one after another.
    """
    grid = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), axis=-1)
    blocks = grid.reshape(rows // merge, merge, columns // merge, merge, 2)
    return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3, 4).reshape(-1, 2)).astype(np.int64)
