"""One run: a trace, a fleet, a policy that runs at its ticks, and the score."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from mm_lab.simulation.fleet import Fleet
from mm_lab.simulation.meters import Meters
from mm_lab.simulation.profile import ServiceProfile
from mm_lab.simulation.request import Request
from mm_lab.simulation.score import Change, Score, Targets

SCRAPE_AGE_SECONDS = 8
"""Age of what Prometheus shows: half a scrape interval of 15 s, in full seconds. Every pod is
scraped at a moment of its own, so a sum over pods is so old on the mean."""

_BAD_SHARE = 0.05
"""A minute in which more of its requests miss counts as bad."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong: intervals and moments in seconds from the start."""

    silent: tuple[tuple[float, float], ...] = ()
    """Prometheus gives no answer."""
    nan: tuple[tuple[float, float], ...] = ()
    """Prometheus answers NaN."""
    crashes: tuple[float, ...] = ()
    """A Ready pod dies."""

    def silent_at(self, at: float) -> bool:
        """Return whether there is no answer."""
        return any(start <= at < end for start, end in self.silent)

    def nan_at(self, at: float) -> bool:
        """Return whether the answer is NaN."""
        return any(start <= at < end for start, end in self.nan)


@dataclass(frozen=True, slots=True)
class View:
    """What a policy may look at, at one tick. Metrics end at `shown`, replicas are of now."""

    at: int
    fleet: Fleet
    meters: Meters
    silent: bool
    nan: bool

    @property
    def shown(self) -> int:
        """Return the moment that Prometheus shows."""
        return self.at - SCRAPE_AGE_SECONDS


class Policy(Protocol):
    """Something that says how many replicas there should be. One object a run: it may remember."""

    tick_seconds: int

    def replicas(self, view: View) -> int:
        """Return the number wanted at this tick."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is simulated, apart from trace and policy."""

    profile: ServiceProfile
    targets: Targets
    start_replicas: int
    min_replicas: int
    max_replicas: int
    nodes: int = 1_000
    faults: Faults = Faults()
    quiet_seconds: int = 300
    """Before the first tick: every policy finds windows that are full."""
    seed: int = 0


def simulate(trace: Sequence[Request], policy: Policy, plan: Plan) -> Score:
    """Return the score of one run; same arguments, same score."""
    meters = Meters(plan.targets)
    fleet = Fleet(
        plan.profile,
        plan.start_replicas,
        nodes=plan.nodes,
        seed=random.Random(plan.seed),  # noqa: S311 (repeatable, not secret)
    )
    changes: list[Change] = []
    crashes = sorted(plan.faults.crashes, reverse=True)
    lowest = highest = fleet.ready
    length = math.ceil(trace[-1].at) if trace else 0
    arrivals = _by_second(trace)
    for at in range(1, length + 1):
        requests = arrivals.get(at, [])
        for request in requests:
            meters.arrived(request)
        while crashes and crashes[-1] <= at:
            fleet.crash(crashes.pop(), meters)
        fleet.second(float(at), requests, meters)
        lowest, highest = min(lowest, fleet.ready), max(highest, fleet.ready)
        if at >= plan.quiet_seconds and at % policy.tick_seconds == 0:
            change = _tick(at, fleet, meters, policy, plan)
            changes.extend([change] if change else [])
    return _score(trace, meters, fleet, tuple(changes), lowest=lowest, highest=highest)


def _by_second(trace: Sequence[Request]) -> dict[int, list[Request]]:
    grouped = groupby(trace, key=lambda request: math.floor(request.at) + 1)
    return {second: list(requests) for second, requests in grouped}


def _tick(at: int, fleet: Fleet, meters: Meters, policy: Policy, plan: Plan) -> Change | None:
    faults = plan.faults
    view = View(at, fleet, meters, faults.silent_at(at), faults.nan_at(at))
    wanted = min(max(policy.replicas(view), plan.min_replicas), plan.max_replicas)
    if wanted == fleet.wanted:
        return None
    change = Change(float(at), fleet.wanted, wanted)
    fleet.scale(wanted, float(at))
    return change


def _score(
    trace: Sequence[Request],
    meters: Meters,
    fleet: Fleet,
    changes: tuple[Change, ...],
    *,
    lowest: int,
    highest: int,
) -> Score:
    known = meters.good + len(meters.misses)
    tokens = sorted(meters.first_tokens)
    return Score(
        requests=len(trace),
        # Requests that still run at the end are left out: their result is unknown.
        attainment=meters.good / known if known else 1.0,
        refused=meters.refusals,
        lost=meters.lost,
        first_token_p99_seconds=tokens[math.ceil(0.99 * len(tokens)) - 1] if tokens else 0.0,
        replica_hours=fleet.paid_seconds / 3600,
        changes=changes,
        bad_minutes=_bad_minutes(trace, meters.misses),
        lowest_ready=lowest,
        highest_ready=highest,
    )


def _bad_minutes(trace: Sequence[Request], misses: Sequence[float]) -> int:
    arrived: dict[int, int] = {}
    missed: dict[int, int] = {}
    for request in trace:
        minute = int(request.at // 60)
        arrived[minute] = arrived.get(minute, 0) + 1
    for at in misses:
        missed[int(at // 60)] = missed.get(int(at // 60), 0) + 1
    return sum(1 for minute, count in missed.items() if count > _BAD_SHARE * arrived.get(minute, 0))
