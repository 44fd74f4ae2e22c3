"""When a failed Job is tried again: a delay that grows with the attempts, counted from its end."""

from dataclasses import dataclass
from datetime import datetime

RETRIED = "it is retried automatically, and at once when the spec changes"
"""What a condition says of a failed Job beside its cause."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds: `first`, then doubled with every attempt, never above `longest`."""

    first: float
    longest: float

    def seconds_left(self, *, attempt: int, finished_at: datetime | None, now: datetime) -> float:
        """Return how long the next attempt has to wait; 0 when it is due.

        Without a `finished_at` the delay starts over at `now`.
        """
        delay = min(self.first * 2.0 ** min(attempt - 1, 30), self.longest)
        waited = (now - finished_at).total_seconds() if finished_at else 0.0
        return max(0.0, delay - waited)


INSPECT = Backoff(first=30, longest=600)
"""An inspection is cheap and is the only way to notice that a source was repaired."""

BUILD = Backoff(first=60, longest=3600)
"""A build may hold a GPU for an hour. The Job itself retried already; this comes after."""
