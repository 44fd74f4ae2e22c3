"""PURE: which positions of a prompt read later ones, and where its parts may end because of it."""

from collections.abc import Sequence


def reach_of(ids: Sequence[int], vocabulary: int) -> list[int]:
    """Return the last position that each one reads: its own, or that of its image's end.

    Args:
        ids: of a prompt; those from `vocabulary` on are features, side by side those of one image.
        vocabulary: number of tokens.
    """
    reach = list(range(len(ids)))
    for at in reversed(range(len(ids) - 1)):
        if ids[at] >= vocabulary and ids[at + 1] >= vocabulary:
            reach[at] = reach[at + 1]
    return reach


def complete_rows(reach: Sequence[int], count: int) -> int:
    """Return how many of the first `count` positions are those of complete images and tokens."""
    if not count or reach[count - 1] == count - 1:
        return count
    return reach.index(reach[count - 1])


def rows_of_part(reach: Sequence[int], start: int, rows: int) -> int:
    """Return the rows of a part that no row reads beyond.

    It ends before the image that its last row is part of, or behind it if it begins with that.

    Args:
        reach: the last position that each one reads.
        start: where the part begins, which is not within an image.
        rows: that it was meant to have.
    """
    last = start + rows - 1
    end = reach[last]
    if end == last:
        return rows
    first = reach.index(end)
    return first - start if first > start else end + 1 - start
