"""How much an answer of Prometheus may be, by what was requested. Pure.

Parsing holds the interpreter's lock from the first byte to the last, in whatever thread it runs, so
the bound on bytes is the bound on how long the loop that renews the Lease stands still.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

PODS_OF_A_QUERY = 100
"""An answer about them has at most 864 KiB: about 10 ms of parsing."""

_BASE_BYTES = 64 * 1024
"""For what frames an answer, or a text of an error."""

_POD_BYTES = 8 * 1024
"""Twice what the combined query answers for a pod with long names, 24 samples of 170 bytes."""

T = TypeVar("T")


def most_bytes(pods: int) -> int:
    """Return the most that an answer about so many pods may have."""
    return _BASE_BYTES + _POD_BYTES * pods


def chunks(many: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(many), PODS_OF_A_QUERY):
        yield many[first : first + PODS_OF_A_QUERY]
