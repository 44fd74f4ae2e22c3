"""What a Lease says and what follows from it. Pure: time comes in as numbers.

A candidate never compares its clock with another machine's. It notes when it saw the record change
last, and takes over when nothing changed for the record's own duration.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Timing:
    """The numbers of the election, in seconds.

    A leader killed right after a renewal is replaced within duration + 2 x retry = 10 s (the
    candidate may see the renewal one retry late, and looks once per retry). A leader that cannot
    renew stops writing after `renew_deadline`, 3 s before another replica may start.
    """

    duration: float = 8.0
    renew_deadline: float = 5.0
    retry: float = 1.0


@dataclass(frozen=True, slots=True)
class Sighting:
    """A record as one candidate saw it: what it says, and since when (monotonic) it says so."""

    holder: str
    version: str
    duration: float
    since: float


def sight(lease: dict[str, Any], previous: Sighting | None, now: float) -> Sighting:
    """Return the sighting of a Lease; `since` moves only when the Lease changed."""
    spec, version = lease.get("spec") or {}, lease["metadata"]["resourceVersion"]
    unchanged = previous is not None and previous.version == version
    return Sighting(
        holder=spec.get("holderIdentity") or "",
        version=version,
        duration=float(spec.get("leaseDurationSeconds") or 0),
        since=previous.since if previous is not None and unchanged else now,
    )


def may_take(sighting: Sighting, identity: str, now: float) -> bool:
    """Return whether a candidate may write itself into the Lease."""
    if sighting.holder in {"", identity}:
        return True
    return now - sighting.since >= sighting.duration


def claimed(
    lease: dict[str, Any] | None, identity: str, timing: Timing, wall_clock: datetime
) -> dict[str, Any]:
    """Return the spec of a Lease that a candidate takes or renews."""
    old = (lease or {}).get("spec") or {}
    moment = wall_clock.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    mine = old.get("holderIdentity") == identity
    return {
        "holderIdentity": identity,
        "leaseDurationSeconds": int(timing.duration),
        "acquireTime": old.get("acquireTime", moment) if mine else moment,
        "renewTime": moment,
        "leaseTransitions": int(old.get("leaseTransitions") or 0) + (0 if mine or not lease else 1),
    }


def released(lease: dict[str, Any], wall_clock: datetime) -> dict[str, Any]:
    """Return the spec of a Lease that its holder releases: the next candidate takes it."""
    old = lease.get("spec") or {}
    return {
        **old,
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "renewTime": wall_clock.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
