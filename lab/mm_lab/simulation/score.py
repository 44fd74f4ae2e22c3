"""What a run was worth: how many requests kept their objectives, and what that took."""

import math
from dataclasses import dataclass
from itertools import pairwise

REVERSAL_SECONDS = 900.0
"""A change in one direction this soon after one in the other was one of the two too many."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Objectives of every single request."""

    first_token_seconds: float
    inter_token_seconds: float
    request_seconds: float = math.inf
    """To the last token."""
    queue_seconds: float = math.inf
    """Before a slot was free; judged when it is taken, by `Meters.admitted`."""

    def kept(self, first_token: float, inter_token: float | None, total: float) -> bool:
        """Return whether a request kept all that is known at its end.

        An answer too short for an inter-token latency kept that.
        """
        if first_token > self.first_token_seconds or total > self.request_seconds:
            return False
        return inter_token is None or inter_token <= self.inter_token_seconds


@dataclass(frozen=True, slots=True)
class Change:
    """The requested replicas changed."""

    at: float
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Score:
    """One run. Replica hours count from scheduled to gone: a GPU that starts is paid for."""

    requests: int
    attainment: float
    """Share of requests that kept the objectives; refused and lost ones did not."""
    refused: int
    lost: int
    first_token_p99_seconds: float
    replica_hours: float
    changes: tuple[Change, ...]
    bad_minutes: int
    """Minutes in which more than 5 % of the requests that arrived missed: how long it hurt."""
    lowest_ready: int
    highest_ready: int

    @property
    def reversals(self) -> int:
        """Return how often the direction turned within `REVERSAL_SECONDS`."""
        return reversals(self.changes)


def reversals(changes: tuple[Change, ...]) -> int:
    """Return how often one change was followed soon by one in the other direction."""
    return sum(
        1
        for before, after in pairwise(changes)
        if (before.after > before.before) != (after.after > after.before)
        and after.at - before.at <= REVERSAL_SECONDS
    )
