"""What the requests inside say that counted work cannot: all slots are taken, and more come.

A queue says that more is needed and not how much: it is as long as replicas take to start. What it
grows by each second says how much: that came beyond what the replicas do. And what they do while
it waits is all that they can, whatever their pods measured at their start.
"""

import math
from dataclasses import dataclass, replace

from mm_operator.autoscaling.objectives import Objectives, WorkCost
from mm_operator.autoscaling.observation import (
    FAST_WINDOW_SECONDS,
    NEWEST_SECONDS,
    Observation,
    RequestRate,
    Traffic,
)
from mm_operator.autoscaling.state import FullLoad, Sample, State


@dataclass(frozen=True, slots=True)
class Queue:
    """What waits before the Ready replicas at one tick."""

    waits: bool
    """Whether more requests are inside than all Ready replicas have slots."""
    grows: bool
    """Whether it gets longer by more than noise, or is full and refuses."""
    growth: float
    """Requests a second by which more are inside; below zero while it is worked off."""
    work: float
    """Lowest demand that it proves, in counted work: what replicas do, and what comes beyond."""
    full_load: float
    """Counted work that a replica does when it can do no more. Less than one where the measured
    cost is too low, or something that it does not count is the narrow place."""


def queue_of(
    observation: Observation, traffic: Traffic, state: State, objectives: Objectives
) -> tuple[Queue, State]:
    """Return the queue of one tick, and the memory with what it shows."""
    at, tuning, serving = observation.at, objectives.tuning, max(1, observation.ready)
    slots = serving * max(1, objectives.slots_per_replica)
    waits = traffic.in_flight > slots
    growth = _growth(state.inside, traffic.in_flight, at)
    state = replace(state, inside=Sample(at, traffic.in_flight))
    if objectives.cost is None:
        return Queue(waits, grows=False, growth=growth, work=0.0, full_load=1.0), state
    beyond = growth * mean_work(traffic, objectives.cost)
    noise = (1 - tuning.margin) * serving * _full_load(state, traffic, objectives, at)
    more = beyond > noise or (traffic.fast.refused > 0 and growth >= 0)
    # One that waits for encoders says nothing of what replicas do.
    grows = waits and more and not _just_helped(state, at) and not observation.starved
    busy = traffic.running is not None and traffic.running >= tuning.margin * slots
    full = grows or (waits and busy and not observation.starved)
    state = _learned(state, observation, traffic, objectives, full=full)
    full_load = _full_load(state, traffic, objectives, at)
    proven = 0.0
    if grows and _is_old(state, at):
        proven = serving * full_load + max(0.0, beyond)
    return Queue(waits, grows, growth, proven, full_load), state


def work(arrivals: RequestRate, mean_output_tokens: float, cost: WorkCost) -> float:
    """Return the seconds of a full replica that one second of arrivals takes.

    Refused requests are work as well: they count like the mean of those that were let in.
    """
    admitted = (
        arrivals.requests * cost.request_seconds
        + arrivals.image_tokens * cost.image_token_seconds
        + arrivals.text_tokens * cost.text_token_seconds
        + arrivals.requests * mean_output_tokens * cost.output_token_seconds
    )
    if arrivals.requests <= 0:
        return admitted
    return admitted * (arrivals.requests + arrivals.refused) / arrivals.requests


def mean_work(traffic: Traffic, cost: WorkCost) -> float:
    """Return the counted work of the mean request of the last minute; 0 when none came."""
    came = traffic.fast.requests + traffic.fast.refused
    return work(traffic.fast, traffic.mean_output_tokens or 0.0, cost) / came if came > 0 else 0.0


def _growth(before: Sample | None, inside: float, at: float) -> float:
    if before is None or not 0 < at - before.at <= FAST_WINDOW_SECONDS:
        return 0.0
    return (inside - before.value) / (at - before.at)


def _just_helped(state: State, at: float) -> bool:
    return state.helped_at is not None and at - state.helped_at < FAST_WINDOW_SECONDS


def _is_old(state: State, at: float) -> bool:
    return state.full_since is not None and at - state.full_since >= NEWEST_SECONDS


def _learned(
    state: State,
    observation: Observation,
    traffic: Traffic,
    objectives: Objectives,
    *,
    full: bool,
) -> State:
    """Return the memory with what replicas can do, seen once they are full for an interval."""
    at, cost = observation.at, objectives.cost
    since = None
    if full:
        since = at if state.full_since is None else state.full_since
    state = replace(state, full_since=since)
    if cost is None or not traffic.completed:
        return state
    former = _at_cost(state.full_load, traffic, cost)
    done = traffic.completed * mean_work(traffic, cost) / max(1, observation.ready)
    if since is None:
        if former is None or done <= former.value:
            return state
        # What they do now they can do: they were slowed then by what is over.
        return replace(state, full_load=FullLoad(former.at, min(1.0, done), cost))
    if not _is_old(state, at):
        return state
    if former is not None and former.at > since:
        done = (done + former.value) / 2
    else:
        done *= 1 + 1 / math.sqrt(traffic.completed * NEWEST_SECONDS)  # chance, on the safe side
    value = min(1.0, max(objectives.tuning.least_full_load, done))
    return replace(state, full_load=FullLoad(at, value, cost))


def _full_load(state: State, traffic: Traffic, objectives: Objectives, at: float) -> float:
    """Return what a replica does at most, as far as it is known and news."""
    tuning, cost = objectives.tuning, objectives.cost
    learned = None if cost is None else _at_cost(state.full_load, traffic, cost)
    if learned is None or at - learned.at > tuning.learned_seconds:
        return 1.0
    if learned.value > tuning.margin:
        return 1.0
    return max(tuning.least_full_load, learned.value)


def _at_cost(learned: FullLoad | None, traffic: Traffic, cost: WorkCost) -> FullLoad | None:
    """Return what was learned, counted with the present cost: new pods may report another."""
    if learned is None or learned.cost == cost:
        return learned
    then = mean_work(traffic, learned.cost)
    ratio = mean_work(traffic, cost) / then if then > 0 else 1.0
    return FullLoad(learned.at, learned.value * ratio, cost)
