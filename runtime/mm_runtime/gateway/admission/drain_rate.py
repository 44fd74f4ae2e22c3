"""How fast requests leave: tokens a second, measured while every slot is taken."""

from collections.abc import Callable

_KEPT = 0.9
"""Weight of what was measured before, at each request that ends: about the last ten count."""

_ENOUGH = 3
"""Requests that ended with all slots taken; before that nothing is known."""


class DrainRate:
    """The rate of one replica. Tokens are those that tickets state: the longest answers."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._full_since: float | None = None
        self._tokens = 0.0
        self._seconds = 0.0
        self._seen = 0

    @property
    def tokens_per_second(self) -> float | None:
        """The rate; None: too few requests have ended."""
        if self._seen < _ENOUGH or self._seconds <= 0:
            return None
        return self._tokens / self._seconds

    def filled(self) -> None:
        """Note that the last slot was taken."""
        if self._full_since is None:
            self._full_since = self._clock()

    def ended(self, tokens: int, *, waiting: bool) -> None:
        """Note that a request gave its slot back; without tokens its time does not count either."""
        if self._full_since is None:
            return
        now = self._clock()
        if tokens:
            self._tokens = self._tokens * _KEPT + tokens
            self._seconds = self._seconds * _KEPT + now - self._full_since
            self._seen += 1
        self._full_since = now if waiting else None

    def seconds_for(self, tokens: float) -> float | None:
        """Return how long so many tokens take; None: nothing is known."""
        rate = self.tokens_per_second
        return None if rate is None else tokens / rate
