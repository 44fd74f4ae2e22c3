"""How long pods of a model take from scheduled to Ready, as their own status shows. Pure."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from statistics import median, quantiles

from mm_operator.scaling.pods import PHASES, ScaledPod

_KEPT = 16
"""Starts that count: enough that one slow node does not decide, few enough to follow a change."""


class ColdStarts:
    """The last starts of one model.

    Args:
        known_seconds: what was measured before this process began; used until a start is seen.
    """

    def __init__(self, known_seconds: float | None = None) -> None:
        self._known = known_seconds
        self._starts: OrderedDict[str, Mapping[str, float]] = OrderedDict()

    def see(self, pods: Iterable[ScaledPod]) -> None:
        """Take the pods there are; each start counts once, when its pod is first seen Ready."""
        for pod in pods:
            if pod.uid not in self._starts and (phases := pod.start_phases()):
                self._starts[pod.uid] = phases
        while len(self._starts) > _KEPT:
            self._starts.popitem(last=False)

    def seconds(self) -> float | None:
        """Return what a start takes, the slow half of them: three of four were quicker."""
        totals = [phases["total"] for phases in self._starts.values()]
        if not totals:
            return self._known
        return totals[0] if len(totals) == 1 else quantiles(totals, n=4, method="inclusive")[2]

    def phases(self) -> dict[str, float]:
        """Return the median of each phase; empty when no start was seen."""
        starts = self._starts.values()
        return {name: median(one[name] for one in starts) for name in PHASES if starts}
