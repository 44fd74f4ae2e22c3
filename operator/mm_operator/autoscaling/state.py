"""What the policy remembers between two ticks of one model.

Small and plain, so it can be written down. A new leader that finds none starts with `fresh`: it
knows nothing of the past, so it holds what it finds until its memory is long enough to step down.
"""

from dataclasses import dataclass

from mm_operator.autoscaling.objectives import WorkCost


@dataclass(frozen=True, slots=True)
class Sample:
    """A number at a moment, in Unix seconds."""

    at: float
    value: float


@dataclass(frozen=True, slots=True)
class FullLoad:
    """What replicas did while a queue stood before them: all that they can."""

    at: float
    value: float
    """Counted work of one replica; 1 when its cost was measured right."""
    cost: WorkCost
    """What it was counted with."""


@dataclass(frozen=True, slots=True)
class State:
    """The policy's memory. Tuples are oldest first."""

    since: float
    """When this memory began: no step down before it covers the windows it decides on."""
    changed_at: float
    """Last change of the replicas, in any direction, from any source."""
    grew_at: float
    """Last time that replicas were added, from any source."""
    replicas: int
    """What the last tick requested; another number in the next observation is another writer's."""
    counted: bool | None = None
    """Whether demand was work, not slots taken, at the last tick that saw any."""
    requested_at: float | None = None
    """Last time that a request was seen or waited in a router."""
    ready: int = 0
    """Pods that were Ready at the last tick."""
    became_ready_at: float | None = None
    """Last time that one more became Ready."""
    helped_at: float | None = None
    """Last time that one more became Ready while a queue stood."""
    raised_at: float | None = None
    """Last time that pressure added replicas."""
    raised_pressure: float = 0.0
    """Pressure when it last added replicas."""
    raised_utilisation: float = 0.0
    """How busy Ready replicas were when it last added some: with work or with taken slots."""
    raised_load: float | None = None
    """Arriving work per Ready replica when it last added replicas: this much was too much."""
    overloaded_at: float | None = None
    """Last time that more arrived than all Ready replicas could work off."""
    inside: Sample | None = None
    """Requests running and waiting at the last tick that saw any traffic."""
    full_since: float | None = None
    """Since when a queue grows or all slots are taken, of the same Ready replicas."""
    full_load: FullLoad | None = None
    """What replicas could do when a queue last grew before them."""
    jitter: Sample | None = None
    """Share of the steady work by which a scrape interval's work usually differs from it; `None`
    until one was seen."""
    pressure: float | None = None
    """Smoothed worst latency over its target; `None` until one was measured."""
    high_ticks: int = 0
    """Ticks in a row with high pressure."""
    silent_ticks: int = 0
    """Ticks in a row without an answer of Prometheus."""
    demand: tuple[Sample, ...] = ()
    """Demand in full replicas; highest per `DEMAND_STEP_SECONDS`."""
    recommendations: tuple[Sample, ...] = ()
    """Replicas recommended before rate limits were applied: what stabilisation windows look at."""
    changes: tuple[Sample, ...] = ()
    """Replicas added (positive) or removed by us: what rate limits look at."""


DEMAND_STEP_SECONDS = 30.0
"""Demand is kept in steps of two ticks: ten samples for five minutes."""


def fresh(at: float, replicas: int) -> State:
    return State(since=at, changed_at=at, grew_at=at, replicas=replicas)
