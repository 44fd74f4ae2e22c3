"""Memory of request bodies: all that are read or prepared at one time share one limit."""

from collections.abc import Iterator
from contextlib import contextmanager

from mm_api.gateway_memory import TEXT_BODY_BYTES
from mm_edge.errors import OverloadedError

_RESERVE = 8
"""One part in so many of the budget is for bodies that are text: large ones that come slowly, up to
their deadline, keep no small request out."""


class BodyBudget:
    """Memory for all bodies that are read or prepared at one time, and for what became of them.

    The size limit of one body alone is no bound: seventy clients that wait in the queue, each with
    the largest body, are gigabytes.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._left = limit_bytes
        self._reserve = limit_bytes // _RESERVE

    @contextmanager
    def claim(self) -> Iterator["BodyClaim"]:
        """Hold what one body needs; nothing at first."""
        claim = BodyClaim(self)
        try:
            yield claim
        finally:
            claim.release()

    def reserve(self, count: int, held: int) -> None:
        """Take bytes for a body that holds some already, or raise OverloadedError."""
        kept = self._reserve if held + count > TEXT_BODY_BYTES else 0
        if count > self._left - kept:
            raise OverloadedError(
                "Too many large requests arrive at this moment. Try again.",
                retry_after_seconds=1,
                reason="body_memory",
                code="rate_limit_exceeded",
            )
        self._left -= count

    def free(self, count: int) -> None:
        self._left += count


class BodyClaim:
    """What one body holds of the budget."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._held = 0

    def grow(self, count: int) -> None:
        """Hold more bytes; see `BodyBudget.take`."""
        self._budget.reserve(count, self._held)
        self._held += count

    def release(self) -> None:
        self._budget.free(self._held)
        self._held = 0
