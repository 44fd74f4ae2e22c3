"""The numbers behind a decision, checked before they are used and named for the status."""

import math

from mm_operator.autoscaling.demand import Demand, cold_start_of
from mm_operator.autoscaling.objectives import Objectives
from mm_operator.autoscaling.observation import Observation, Traffic
from mm_operator.autoscaling.pressure import Pressure
from mm_operator.autoscaling.queue import Queue

_DIGITS = 3
"""Significant digits: enough to follow a decision; more would make every tick a write."""


def problem_of(traffic: Traffic | None, problem: str) -> str:
    """Return why there is no traffic to decide on, one sentence; empty when there is."""
    if traffic is None:
        return problem or "Prometheus gave no answer."
    for name, value in _numbers(traffic).items():
        if not math.isfinite(value) or value < 0:
            return f"Prometheus returned {value} for {name}, which is not a possible load."
    return ""


def inputs_of(
    observation: Observation,
    traffic: Traffic | None,
    demand: Demand | None,
    pressure: Pressure,
    objectives: Objectives,
    *,
    share: float,
    jitter: float | None = None,
    queue: Queue | None = None,
) -> dict[str, float]:
    """Return what was looked at; a number that is not known is left out.

    `share` is how much of full work a replica should carry now, `jitter` the usual deviation.
    """
    found: dict[str, float | None] = {
        "readyReplicas": observation.ready,
        "pendingReplicas": observation.pending,
        "unschedulableReplicas": observation.unschedulable,
        "coldStartSeconds": cold_start_of(observation, objectives.tuning),
        "utilisationTarget": share,
        "pressure": pressure.value,
        "demandJitter": jitter,
    }
    if demand is not None:
        found |= {
            "demandNewest": demand.newest,
            "demandFast": demand.fast,
            "demandSteady": demand.steady,
            "demandForecast": demand.forecast,
            "demandPeak": demand.peak,
            "utilisation": demand.steady / max(1, observation.ready),
        }
    if queue is not None:
        found |= {"queueGrowthPerSecond": queue.growth, "fullLoad": queue.full_load}
    if traffic is not None:
        found |= _numbers(traffic)
    return {
        name: rounded(float(value))
        for name, value in found.items()
        if value is not None and math.isfinite(value)
    }


def _numbers(traffic: Traffic) -> dict[str, float]:
    numbers = {
        "requestsPerSecond": traffic.steady.requests,
        "imageTokensPerSecond": traffic.steady.image_tokens,
        "textTokensPerSecond": traffic.steady.text_tokens,
        "refusedPerSecond": traffic.steady.refused,
        "fastRequestsPerSecond": traffic.fast.requests,
        "fastImageTokensPerSecond": traffic.fast.image_tokens,
        "fastTextTokensPerSecond": traffic.fast.text_tokens,
        "fastRefusedPerSecond": traffic.fast.refused,
        "inFlightRequests": traffic.in_flight,
    }
    if traffic.newest is not None:
        numbers |= {
            "newestRequestsPerSecond": traffic.newest.requests,
            "newestImageTokensPerSecond": traffic.newest.image_tokens,
            "newestTextTokensPerSecond": traffic.newest.text_tokens,
            "newestRefusedPerSecond": traffic.newest.refused,
        }
    if traffic.mean_output_tokens is not None:
        numbers["meanOutputTokens"] = traffic.mean_output_tokens
    return numbers | {f"latency{name}Seconds": value for name, value in traffic.latencies.items()}


def rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
