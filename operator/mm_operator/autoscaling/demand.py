"""How many full replicas the arriving work would keep busy, now and when a new one could help."""

from dataclasses import dataclass

from mm_operator.autoscaling.objectives import Objectives, Tuning, WorkCost
from mm_operator.autoscaling.observation import Arrivals, Observation, Traffic
from mm_operator.autoscaling.state import DEMAND_STEP_SECONDS, Sample

TREND_WINDOW_SECONDS = 300.0
"""A trend is the rise over this long: shorter, and the noise of a few hundred requests is one."""

_LEAST_TREND_SECONDS = 120.0
"""A younger memory has no trend."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Work in full replicas: 2.5 keeps two and a half of them busy without a pause."""

    fast: float
    steady: float
    forecast: float
    """When a replica that is asked for now becomes Ready."""
    peak: float
    """Highest of the policy's memory, with now."""


def demand_of(
    observation: Observation, traffic: Traffic, memory: tuple[Sample, ...], objectives: Objectives
) -> Demand:
    """Return the demand of one tick; `memory` holds the demand of earlier ticks."""
    fast, steady = _now(traffic, objectives)
    now = _without_spike(fast, steady, objectives.tuning)
    ahead = _ahead(observation, objectives.tuning)
    horizon = observation.at - memory_seconds(observation, objectives.tuning)
    rise = max(0.0, _slope(memory, observation.at, steady)) * ahead
    return Demand(
        fast=fast,
        steady=steady,
        forecast=now + rise,
        peak=max([now, *(sample.value for sample in memory if sample.at > horizon)]),
    )


def remembered(
    memory: tuple[Sample, ...], observation: Observation, demand: Demand, tuning: Tuning
) -> tuple[Sample, ...]:
    """Return the memory with this tick: the steady demand, the highest of each step."""
    at = observation.at
    horizon = at - max(TREND_WINDOW_SECONDS, memory_seconds(observation, tuning))
    kept = [sample for sample in memory if sample.at > horizon]
    if kept and at - kept[-1].at < DEMAND_STEP_SECONDS:
        last = kept.pop()
        return (*kept, Sample(last.at, max(last.value, demand.steady)))
    return (*kept, Sample(at, demand.steady))


def cold_start_of(observation: Observation, tuning: Tuning) -> float:
    """Return the seconds until a replica that is asked for now serves."""
    measured = observation.cold_start_seconds
    return tuning.cold_start_seconds if measured is None else measured


def memory_seconds(observation: Observation, tuning: Tuning) -> float:
    """Return how long a step down looks back."""
    starts = tuning.demand_memory_cold_starts * cold_start_of(observation, tuning)
    return max(tuning.demand_memory_seconds, starts)


def _now(traffic: Traffic, objectives: Objectives) -> tuple[float, float]:
    if objectives.cost is None:
        occupied = traffic.in_flight / max(1, objectives.slots_per_replica)
        return occupied, occupied
    output = traffic.mean_output_tokens or 0.0
    return (
        work(traffic.fast, output, objectives.cost),
        work(traffic.steady, output, objectives.cost),
    )


def work(arrivals: Arrivals, mean_output_tokens: float, cost: WorkCost) -> float:
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


def _without_spike(fast: float, steady: float, tuning: Tuning) -> float:
    return max(steady, min(fast, tuning.burst_factor * steady))


def _ahead(observation: Observation, tuning: Tuning) -> float:
    cold_start = cold_start_of(observation, tuning)
    return min(cold_start, tuning.trend_seconds) * tuning.trend_weight


def _slope(memory: tuple[Sample, ...], at: float, steady: float) -> float:
    """Return the rise of the steady demand per second since the start of the trend window."""
    window = [sample for sample in memory if sample.at >= at - TREND_WINDOW_SECONDS]
    if not window or at - window[0].at < _LEAST_TREND_SECONDS:
        return 0.0
    return (steady - window[0].value) / (at - window[0].at)
