"""How much the work of one scrape interval usually differs from that of minutes.

Clients that send in bursts are no crowd: their bursts are over before a replica starts. What a
model's load always does is therefore not followed; what it never did before is.
"""

import math

from mm_operator.autoscaling.observation import STEADY_WINDOW_SECONDS
from mm_operator.autoscaling.state import Sample

_HALF_SECONDS = 2 * STEADY_WINDOW_SECONDS
"""Half of what is known is of so long: some twenty ticks, and a burst every few minutes is not
forgotten before the next."""


def jitter_of(newest: float, steady: float, at: float, before: Sample | None) -> Sample | None:
    """Return the usual deviation after one more interval, as a share of the steady work.

    A root of a mean of squares that forgets. `None` while there was no interval to compare.
    """
    if steady <= 0:
        return before
    # All of the work at the most: a crowd must not make the next one usual.
    deviation = min(1.0, abs(newest / steady - 1))
    if before is None:
        return Sample(at, deviation)
    kept = 0.5 ** (max(0.0, at - before.at) / _HALF_SECONDS)
    return Sample(at, math.sqrt(kept * before.value**2 + (1 - kept) * deviation**2))
