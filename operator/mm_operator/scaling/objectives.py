"""From `spec.autoscaling` to the objectives of the policy. Pure."""

from dataclasses import replace

from mm_api.v1alpha1 import AutoscalingSpec, duration
from mm_api.v1alpha1 import ScalingRules as RulesSpec
from mm_operator.autoscaling import (
    LatencyMetric,
    LatencyObjective,
    Objectives,
    PolicyType,
    RatePolicy,
    ScalingRules,
    ScheduleFloor,
    SelectPolicy,
    Tuning,
    WorkCost,
)

_SHORTEST_MEMORY_SECONDS = 60.0
"""One fast window: with less the policy would forget a burst while it sees it."""


def objectives_of(
    spec: AutoscalingSpec, *, slots_per_replica: int, cost: WorkCost | None = None
) -> Objectives:
    """Return the objectives of one model.

    Args:
        spec: as the user wrote it.
        slots_per_replica: requests that one replica runs at a time.
        cost: what a token costs, when it was measured.
    """
    fallback = spec.fallback
    return Objectives(
        min_replicas=spec.min_replicas,
        max_replicas=spec.max_replicas,
        latencies=tuple(
            LatencyObjective(
                metric=LatencyMetric(one.metric),
                percentile=one.percentile,
                target_seconds=duration.parse(one.target).total_seconds(),
            )
            for one in spec.objectives
        ),
        cost=cost,
        slots_per_replica=slots_per_replica,
        warm_replicas=spec.warm_replicas,
        fallback_replicas=fallback.replicas if fallback else None,
        scale_up=_rules(spec.behavior.scale_up),
        scale_down=_rules(spec.behavior.scale_down),
        schedules=tuple(
            ScheduleFloor(
                name=one.name,
                cron=one.start,
                duration_seconds=duration.parse(one.duration).total_seconds(),
                replicas=one.min_replicas,
                time_zone=one.time_zone,
            )
            for one in spec.schedules
        ),
        tuning=_tuning(spec),
    )


def _tuning(spec: AutoscalingSpec) -> Tuning:
    """Return the policy's constants with what the user set in their place."""
    tuning = Tuning()
    if spec.fallback is not None:
        tuning = replace(tuning, no_traffic_ticks=spec.fallback.failures)
    window = spec.behavior.scale_down.stabilization_window_seconds
    if window is not None:
        memory = min(tuning.demand_memory_seconds, max(_SHORTEST_MEMORY_SECONDS, float(window)))
        tuning = replace(tuning, settle_seconds=float(window), demand_memory_seconds=memory)
    return tuning


def _rules(spec: RulesSpec) -> ScalingRules:
    return ScalingRules(
        stabilization_seconds=float(spec.stabilization_window_seconds or 0),
        select=SelectPolicy(spec.select_policy),
        policies=tuple(
            RatePolicy(PolicyType(one.type), one.value, float(one.period_seconds))
            for one in spec.policies
        ),
    )
