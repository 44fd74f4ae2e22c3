"""When requests are due: seconds from the start, in order. Seeded, so a run can be repeated."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_EVEN: Final = 0.01
"""Gaps that vary by less are even: a Gamma distribution has no numbers for them."""


@dataclass(frozen=True, slots=True)
class Due:
    """One request of a plan; None is drawn from the mix."""

    at: float
    images: int | None = None
    words: int | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a trace with one rate.

    Attributes:
        start: when it begins.
        rate: requests per second.
        variation: coefficient of variation of the gaps; 1 is Poisson, more comes in bursts.
    """

    start: float
    rate: float
    variation: float = 1.0


def poisson(rate: float, seconds: float, seed: int) -> Iterator[Due]:
    """Yield arrivals of independent users at a mean rate per second."""
    source = random.Random(seed)  # noqa: S311  # load, not secrets
    at = source.expovariate(rate)
    while at < seconds:
        yield Due(at)
        at += source.expovariate(rate)


def windows(stretches: list[Window], seconds: float, seed: int) -> Iterator[Due]:
    """Yield arrivals whose rate and burstiness change from window to window.

    Gaps are Gamma distributed with the window's coefficient of variation. A gap is drawn in units
    of mean gaps and spent over the windows that it crosses, so a quiet window does not hold back
    the busy one after it.
    """
    source = random.Random(seed)  # noqa: S311  # load, not secrets
    left = 0.0
    for number, window in enumerate(stretches):
        following = stretches[number + 1].start if number + 1 < len(stretches) else math.inf
        end = min(following, seconds)
        if window.rate <= 0 or end <= window.start:
            continue
        at = window.start + left / window.rate
        while at < end:
            yield Due(at)
            at += _gap(source, window.variation) / window.rate
        left = (at - end) * window.rate if math.isfinite(end) else 0.0


def _gap(source: random.Random, variation: float) -> float:
    """Return a gap with mean 1."""
    if variation < _EVEN:
        return 1.0
    shape = 1 / variation**2
    return source.gammavariate(shape, 1 / shape)
