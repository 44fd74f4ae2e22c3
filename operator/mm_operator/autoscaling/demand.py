"""How many full replicas the arriving work would keep busy, now and when a new one could help.

Clients that send in bursts are no crowd: their bursts are over before a replica starts. What a
model's load always does (its jitter) is therefore not followed; what it never did before is.
"""

import math
from dataclasses import dataclass

from mm_operator.autoscaling.objectives import SETTLE_SECONDS, Objectives, Tuning, WorkCost
from mm_operator.autoscaling.observation import (
    FAST_WINDOW_SECONDS,
    NEWEST_SECONDS,
    STEADY_WINDOW_SECONDS,
    Observation,
    Traffic,
)
from mm_operator.autoscaling.queue import Queue, work
from mm_operator.autoscaling.state import DEMAND_STEP_SECONDS, Sample

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


TREND_WINDOW_SECONDS = 300.0
"""A trend is the rise over this long: shorter, and the noise of a few hundred requests is one."""

_LAG_SECONDS = (STEADY_WINDOW_SECONDS - FAST_WINDOW_SECONDS) / 2
"""The steady window shows a rise so much later than the fast one."""

_LEAST_TREND_SECONDS = 120.0
"""A younger memory has no trend."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Work in full replicas: 2.5 keeps two and a half of them busy without a pause."""

    newest: float
    """In the last scrape interval."""
    fast: float
    steady: float
    now: float
    """The highest of the three, as far as each is believed: what the others add to."""
    forecast: float
    """When a replica that is requested now becomes Ready."""
    peak: float
    """Highest of the policy's memory, with now."""
    long_peak: float
    """Highest of the longer memory that a small step down looks back on, with now."""
    queued: bool = False
    """Whether the queue says that so much is needed: counted work, or slots, would say less."""


def demand_of(
    observation: Observation,
    traffic: Traffic,
    objectives: Objectives,
    queue: Queue,
    *,
    memory: tuple[Sample, ...],
    jitter: float,
) -> Demand:
    """Return the demand of one tick.

    `memory`: the steady demand of earlier ticks. `jitter`: by which share of the steady work an
    interval's usually differs from it.
    """
    tuning = objectives.tuning
    taken = traffic.in_flight / max(1, objectives.slots_per_replica)
    serving = max(1, observation.ready)
    newest, fast, steady = (
        _work_now(traffic, objectives.cost)
        if objectives.cost is not None
        # No more slots are taken than there are. A queue in front of them says that more is needed
        # and not how much: it grows until the requested replicas serve. One that waits for encoders
        # says nothing.
        else (min(taken, serving * (objectives.utilisation if observation.starved else 1)),) * 3
    )
    usual = jitter * steady
    sudden = max(
        min(_counted(newest, traffic, tuning), newest - tuning.deviations * usual),
        fast - usual,  # of four intervals, so half of the deviation: two of its own
    )
    counted = max(steady, min(sudden, tuning.burst_factor * steady))
    if queue.grows:
        # No usual burst, and none that ends before a replica serves: it is believed in full.
        counted = max(steady, fast, _counted(newest, traffic, tuning))
    now = max(counted, queue.work)
    # A rise that ended shows no longer between the windows, though still over minutes.
    slope = min(_slope(memory, observation.at, steady), (fast - steady) / _LAG_SECONDS)
    # No further than it is seen back, and half of the observed rises continue.
    ahead = min(cold_start_of(observation, tuning), TREND_WINDOW_SECONDS) / 2
    rise = max(0.0, slope) * ahead
    look_back = memory_seconds(observation, objectives)
    return Demand(
        newest=newest,
        fast=fast,
        steady=steady,
        now=now,
        forecast=now + rise,
        peak=_highest(now, memory, observation.at - look_back),
        long_peak=_highest(now, memory, observation.at - tuning.small_step_patience * look_back),
        queued=(
            queue.work > (2 - tuning.margin) * counted
            if objectives.cost is not None
            else queue.waits
        ),
    )


def remembered(
    memory: tuple[Sample, ...], observation: Observation, demand: Demand, objectives: Objectives
) -> tuple[Sample, ...]:
    """Return the memory with this tick: the steady demand, the highest of each step."""
    at = observation.at
    patience = max(1.0, objectives.tuning.small_step_patience)
    look_back = patience * memory_seconds(observation, objectives)
    horizon = at - max(TREND_WINDOW_SECONDS, look_back)
    kept = [sample for sample in memory if sample.at > horizon]
    if kept and at - kept[-1].at < DEMAND_STEP_SECONDS:
        last = kept.pop()
        return (*kept, Sample(last.at, max(last.value, demand.steady)))
    return (*kept, Sample(at, demand.steady))


def cold_start_of(observation: Observation, tuning: Tuning) -> float:
    """Return the seconds until a replica that is requested now serves."""
    measured = observation.cold_start_seconds
    return tuning.cold_start_seconds if measured is None else measured


def memory_seconds(observation: Observation, objectives: Objectives) -> float:
    """Return how long a step down looks back."""
    tuning = objectives.tuning
    starts = tuning.settle_cold_starts * cold_start_of(observation, tuning)
    return max(FAST_WINDOW_SECONDS, min(SETTLE_SECONDS, objectives.settle_seconds), starts)


def _work_now(traffic: Traffic, cost: WorkCost) -> tuple[float, float, float]:
    output = traffic.mean_output_tokens or 0.0
    return (
        work(traffic.newest, output, cost) if traffic.newest is not None else 0.0,
        work(traffic.fast, output, cost),
        work(traffic.steady, output, cost),
    )


def _counted(newest: float, traffic: Traffic, tuning: Tuning) -> float:
    """Return the part of the newest work that is more than chance with so few requests."""
    if traffic.newest is None:
        return newest
    count = (traffic.newest.requests + traffic.newest.refused) * NEWEST_SECONDS
    return newest * max(0.0, 1 - tuning.deviations / math.sqrt(count)) if count > 0 else 0.0


def _highest(now: float, memory: tuple[Sample, ...], horizon: float) -> float:
    return max([now, *(sample.value for sample in memory if sample.at > horizon)])


def _slope(memory: tuple[Sample, ...], at: float, steady: float) -> float:
    """Return the rise of the steady demand per second since the start of the trend window."""
    window = [sample for sample in memory if sample.at >= at - TREND_WINDOW_SECONDS]
    if not window or at - window[0].at < _LEAST_TREND_SECONDS:
        return 0.0
    return (steady - window[0].value) / (at - window[0].at)
