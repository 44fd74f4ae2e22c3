"""PURE: passes of a fused decoder that are captured as CUDA graphs, and how many are planned.

Rows of a pass stand for all counts up to them: the rest computes for nothing.
"""

from collections.abc import Iterator

PARTS = (16, 32, 64, 128, 256, 384, 512, 624, 704, 832, 1024)
"""Rows of prompts in one pass: a part takes the smallest pass that holds it, and a longer part than
the last takes several, which cost no more: that many rows keep a GPU computing. 624 are an image of
CLIP ViT-L/14-336 and 48 tokens: 14.5 ms for 7 billion parameters on an H100, where 640 took 15.2
and 512 11.7."""

PARTS_BESIDE = (32, 128)
"""Rows of prompts in one pass with tokens. Parts beside decoding requests have at most 128 rows
while few requests wait (`mm_runtime.reference_engine.schedule`); longer ones take a pass of their
own, which computes for longer than weights are read."""

LEAST_BESIDE = 8
"""Decoding rows of a pass that reads a part, too: fewer cost as much, and each size is a graph."""


def doubled(first: int, last: int) -> list[int]:
    """Return `first`, twice that, and so on below `last`, and `last`."""
    return [*_below(first, last), last]


def _below(size: int, last: int) -> Iterator[int]:
    while size < last:
        yield size
        size *= 2


def part_sizes(max_length: int) -> list[int]:
    """Return the sizes of passes for prompts of at most so many rows."""
    largest = min(max_length, PARTS[-1])
    return [*(size for size in PARTS if size < largest), largest]


def sizes_beside(max_length: int) -> list[int]:
    """Return the sizes of parts that are read beside tokens; none where all prompts are shorter."""
    largest = part_sizes(max_length)[-1]
    return [size for size in PARTS_BESIDE if size <= largest]


def batches_beside(slots: int) -> list[int]:
    """Return the decoding rows of passes that read a part, too."""
    return doubled(min(LEAST_BESIDE, slots), slots)


def captured_passes(slots: int, max_length: int) -> int:
    """Return how many passes are captured; `slots`: requests that can run at one time."""
    alone = len(doubled(1, slots)) + len(part_sizes(max_length))
    return alone + len(sizes_beside(max_length)) * len(batches_beside(slots))
