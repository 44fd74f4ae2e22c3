"""From a serving pod's status to what scaling needs of it: Ready, placed, how it started. Pure."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import median, quantiles
from typing import Any

PHASES = ("scheduled", "pulled", "loaded", "warm", "total")
"""Phases of a start: created to scheduled, that to the server's container running, that to the
server being up, that to a real answer; total is from scheduled on: waiting for a node is no
start."""


@dataclass(frozen=True, slots=True)
class ScaledPod:
    """One serving pod; times are Unix seconds."""

    name: str
    uid: str
    ready: bool
    terminating: bool
    created_at: float
    scheduled_at: float | None = None
    pulled_at: float | None = None
    loaded_at: float | None = None
    ready_at: float | None = None
    """When it became Ready last."""
    unschedulable: bool = False
    restarted: bool = False
    ended: bool = False
    """It has given back what it had; it may be there for ever."""
    ends_at: float | None = None
    """When the grace period of one that was deleted is over."""

    def start_phases(self) -> dict[str, float] | None:
        """Return the seconds of each phase of the start; None unless it is a clean first one.

        After a container's restart the times say how long the repair took, not the start.
        """
        moments = (self.scheduled_at, self.pulled_at, self.loaded_at, self.ready_at)
        if not self.ready or self.restarted or None in moments:
            return None
        scheduled, pulled, loaded, ready = (moment or 0.0 for moment in moments)
        seconds = (
            scheduled - self.created_at,
            pulled - scheduled,
            loaded - pulled,
            ready - loaded,
            ready - scheduled,
        )
        return dict(zip(PHASES, (max(0.0, one) for one in seconds), strict=True))


def scaled_pod(pod: Mapping[str, Any]) -> ScaledPod:
    """Return a pod as scaling reads it."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    # A server is a sidecar; in an encoder's pod it is the only container.
    statuses = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    states = ((one.get("state") or {}).get("running") for one in statuses)
    running: Mapping[str, Any] = next(filter(None, states), {})
    scheduled = conditions.get("PodScheduled", {})
    return ScaledPod(
        name=metadata["name"],
        uid=metadata["uid"],
        ready=conditions.get("Ready", {}).get("status") == "True",
        terminating="deletionTimestamp" in metadata,
        created_at=_seconds(metadata.get("creationTimestamp")) or 0.0,
        scheduled_at=_since(conditions, "PodScheduled"),
        pulled_at=_seconds(running.get("startedAt")),
        loaded_at=_since(conditions, "Initialized"),
        ready_at=_since(conditions, "Ready"),
        unschedulable=(
            scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
        ),
        ended=status.get("phase") in {"Succeeded", "Failed"},
        ends_at=_seconds(metadata.get("deletionTimestamp")),
        restarted=any(one.get("restartCount", 0) for one in statuses),
    )


def _since(conditions: Mapping[str, Mapping[str, Any]], kind: str) -> float | None:
    found = conditions.get(kind, {})
    return _seconds(found.get("lastTransitionTime")) if found.get("status") == "True" else None


def _seconds(text: str | None) -> float | None:
    return datetime.fromisoformat(text).timestamp() if text else None


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
