"""How near the latencies come to their targets: the guard beside the demand."""

from dataclasses import dataclass

from mm_operator.autoscaling.decision import ObjectiveOutcome
from mm_operator.autoscaling.objectives import Objectives
from mm_operator.autoscaling.observation import Traffic


@dataclass(frozen=True, slots=True)
class Pressure:
    """Worst latency over its target; `None` while none was ever measured."""

    value: float | None
    high_ticks: int
    unknown: bool
    """Requests run and a latency is missing all the same."""
    worst: str = ""
    """Name of the objective that is nearest to its target."""


def pressure_of(
    traffic: Traffic, objectives: Objectives, before: float | None, high_ticks: int
) -> Pressure:
    """Return the pressure of one tick; `before` and `high_ticks` are the last tick's."""
    ratios = {
        objective.name: traffic.latencies[objective.name] / objective.target_seconds
        for objective in objectives.latencies
        if objective.name in traffic.latencies
    }
    busy = traffic.fast.requests > 0 or traffic.in_flight > 0
    unknown = busy and len(ratios) < len(objectives.latencies)
    if not ratios:
        # Idle pods are not slow; pods that run requests and report nothing are as before.
        value = before if busy else 0.0
        return Pressure(value, 0, unknown)
    worst = max(ratios, key=lambda name: ratios[name])
    high = high_ticks + 1 if ratios[worst] > 1 else 0
    return Pressure(ratios[worst], high, unknown, worst)


def outcomes(traffic: Traffic | None, objectives: Objectives) -> tuple[ObjectiveOutcome, ...]:
    measured = {} if traffic is None else traffic.latencies
    return tuple(
        ObjectiveOutcome(objective.name, objective.target_seconds, measured.get(objective.name))
        for objective in objectives.latencies
    )
