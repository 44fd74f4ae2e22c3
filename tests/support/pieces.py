"""Pieces of a stream: one token each, or several where the sender was behind."""

from collections.abc import Iterable
from itertools import accumulate


def are_tokens(pieces: Iterable[str], tokens: Iterable[str]) -> bool:
    """Return whether pieces are the texts of these tokens in order, none of them cut in two."""
    ends = list(accumulate(tokens))
    cuts = list(accumulate(piece for piece in pieces if piece))
    return cuts[-1:] == ends[-1:] and set(cuts) <= set(ends)
