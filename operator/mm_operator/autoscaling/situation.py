"""All that one tick decides on, and whether more replicas could help at all."""

import math
from dataclasses import dataclass

from mm_operator.autoscaling.demand import Demand
from mm_operator.autoscaling.objectives import Objectives
from mm_operator.autoscaling.observation import Observation
from mm_operator.autoscaling.pressure import Pressure
from mm_operator.autoscaling.queue import Queue
from mm_operator.autoscaling.state import State


@dataclass(frozen=True, slots=True)
class Situation:
    """One tick; `state` is already the next one."""

    observation: Observation
    objectives: Objectives
    state: State
    demand: Demand
    queue: Queue
    pressure: Pressure
    in_flight: float
    """Requests running and waiting, summed over the pods."""


_EDGE = 1e-9
"""Replicas by which a quotient may exceed a whole number and still be it. Sums and quotients of
floats do: three pods with 0.1 in flight each, at 0.3, are 0.30000000000000004 / 0.3, and rounded up
that was a second replica. A nanosecond of work a second is far below what is measurable."""


def rounded_up(replicas: float) -> int:
    return math.ceil(replicas - _EDGE)


def fair_share(situation: Situation) -> float:
    """Return the share of full work that a replica should carry.

    Less than specified where a latency missed its target at less: a cost that was measured too
    low, or a target too tight for it, shows there. And its share of what it did at most while a
    queue stood before it.
    """
    objectives, state, full_load = situation.objectives, situation.state, situation.queue.full_load
    tuning, share = objectives.tuning, full_load * objectives.utilisation
    if state.raised_load is None or state.raised_at is None:
        return share
    if situation.observation.at - state.raised_at > tuning.learned_seconds:
        return share
    least = full_load * objectives.helpful_utilisation
    return min(share, max(tuning.margin * state.raised_load, least))


def is_overloaded(situation: Situation) -> bool:
    """Return whether more arrives than all Ready replicas can work off: a queue grows.

    Only where work is counted: requests in flight are the queue themselves.
    """
    counted = situation.objectives.cost is not None
    return counted and situation.demand.now > capacity(situation)


def capacity(situation: Situation) -> float:
    """Return the work that all Ready replicas do at most."""
    return situation.queue.full_load * situation.observation.ready


def utilisation(situation: Situation, replicas: int) -> float:
    """Return how busy so many replicas would be: arriving work or taken slots, whichever is more.

    Taken slots see what a cost that was measured too low hides.
    """
    slots = max(1, situation.objectives.slots_per_replica)
    work = max(situation.demand.steady, situation.demand.fast) / situation.queue.full_load
    return max(work, situation.in_flight / slots) / max(1, replicas)


def scale_up_helps(situation: Situation) -> bool:
    """Return whether more replicas would lower a latency.

    An image that takes two seconds alone takes two seconds on any number of replicas. That shows
    when they are idle, or when the last boost changed nothing.
    """
    state, tuning = situation.state, situation.objectives.tuning
    busy = utilisation(situation, situation.observation.ready)
    if busy < situation.objectives.helpful_utilisation:
        return False
    if state.raised_at is None or busy >= state.raised_utilisation:
        return True
    pressure = situation.pressure.value or 0.0
    return pressure < tuning.margin * state.raised_pressure
