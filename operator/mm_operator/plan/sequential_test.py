"""PURE: whether pairs of answers show that a new version is worse than the stable one, or is not.

Two tests that may be looked at after every pair (betting martingales: Waudby-Smith and Ramdas,
Estimating means of bounded random variables by betting, 2024). A pair is 1 where the new version
was worse, -1 where the stable one was, else 0, and its mean is how much worse the version is.
"""

from dataclasses import dataclass
from math import exp, log
from typing import Literal

from mm_api.documents.router_state import Pairs

Verdict = Literal["Open", "Passed", "Worse"]

FALSE_ALARM = 0.01
"""Chance that a version that is not worse is called worse, ever, by one comparison of one step."""

FALSE_PASS = 0.05
"""Chance that one that is worse by the margin ever passes one."""

LATENCY_MARGIN = 0.5
"""Worse in three of four pairs: half of them is what equal versions have at the tolerated ratio."""

_BETS = (0.25, 0.5, 0.9)
"""Small ones win on small differences, large ones on large ones: their mean is a test as well."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison of a step; `margin`: the mean of pairs that must not pass, above 0.

    `tolerated`: the mean up to which a version is not worse, below the margin; where it is above 0
    no pair is -1.
    """

    name: str
    pairs: Pairs
    margin: float
    tolerated: float = 0.0

    @property
    def verdict(self) -> Verdict:
        if self._grown(sign=1, centre=self.tolerated) >= 1 / FALSE_ALARM:
            return "Worse"
        return "Passed" if self._grown(sign=-1, centre=self.margin) >= 1 / FALSE_PASS else "Open"

    def _grown(self, *, sign: int, centre: float) -> float:
        """Return what 1 becomes that was bet on means above (or below) the centre, pair by pair."""
        counts = ((1, self.pairs.worse), (-1, self.pairs.better), (0, self.pairs.equal))
        logs = [
            sum(count * log(1 + sign * bet * (value - centre)) for value, count in counts if count)
            for bet in _BETS
        ]
        # Far above what decides, and far from what a float holds.
        return sum(exp(min(one, 50.0)) for one in logs) / len(_BETS)
