"""What was read of claims, cached for a while.

What a bound claim is does not change, but one may be deleted and created again.
"""

import time
from collections.abc import Callable
from typing import Generic, TypeVar

MAX_AGE_SECONDS = 600.0
_UNBOUND_SECONDS = 30.0

Fact = TypeVar("Fact")

Claim = tuple[str, str]
"""Namespace and name."""


class ClaimCache(Generic[Fact]):
    """One fact about each claim.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[Claim, tuple[Fact, float]] = {}

    def is_fresh(self, claim: Claim) -> bool:
        """Return whether a claim was read and need not be read again now."""
        return claim in self._known and self._clock() < self._known[claim][1]

    def keep(self, claim: Claim, fact: Fact, *, bound: bool) -> None:
        """Remember what was read; for a claim without a volume not for long."""
        kept = MAX_AGE_SECONDS if bound else _UNBOUND_SECONDS
        self._known[claim] = (fact, self._clock() + kept)

    def of(self, claim: Claim, unknown: Fact) -> Fact:
        """Return what was read last, however long ago."""
        return self._known.get(claim, (unknown, 0.0))[0]
