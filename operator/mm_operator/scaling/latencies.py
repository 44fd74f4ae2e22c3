"""Percentiles and attainment from the buckets of a histogram. Pure."""

import math
from collections.abc import Iterable, Mapping

Buckets = Mapping[float, float]
"""Upper bound in seconds (infinity included) -> observations up to it; need not be sorted."""


def summed(many: Iterable[Buckets]) -> dict[float, float]:
    """Return the buckets of several pods as one histogram."""
    total: dict[float, float] = {}
    for one in many:
        for bound, count in one.items():
            total[bound] = total.get(bound, 0.0) + count
    return total


def observations(buckets: Buckets) -> float:
    return max(buckets.values(), default=0.0)


def percentile(buckets: Buckets, percent: float) -> float | None:
    """Return a percentile in seconds, as `histogram_quantile` does; None without observations.

    Linear within a bucket; beyond the last finite bound, that bound.
    """
    steps = _steps(buckets)
    total = steps[-1][1] if steps else 0.0
    if total <= 0:
        return None
    rank = total * percent / 100
    low = below = 0.0
    for bound, count in steps:
        if count >= rank and count > below:
            if math.isinf(bound):
                return low
            return low + (bound - low) * (rank - below) / (count - below)
        low, below = (low if math.isinf(bound) else bound), count
    return low


def share_within(buckets: Buckets, seconds: float) -> float | None:
    """Return the share of observations at or below a latency; None without observations."""
    steps = _steps(buckets)
    total = steps[-1][1] if steps else 0.0
    if total <= 0:
        return None
    low = below = 0.0
    for bound, count in steps:
        if seconds < bound:
            part = 0.0 if math.isinf(bound) else (seconds - low) / (bound - low)
            return (below + (count - below) * part) / total
        low, below = bound, count
    return 1.0


def _steps(buckets: Buckets) -> list[tuple[float, float]]:
    """Return the buckets by bound, counts made monotonous: rates of two scrapes may cross."""
    highest = 0.0
    steps = []
    for bound in sorted(buckets):
        highest = max(highest, buckets[bound])
        steps.append((bound, highest))
    return steps
