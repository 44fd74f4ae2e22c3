"""From `spec.autoscaling` to the objectives of the policy. Pure."""

from mm_api.v1alpha1 import AutoscalingSpec, duration
from mm_operator.autoscaling import (
    SETTLE_SECONDS,
    LatencyMetric,
    LatencyObjective,
    Objectives,
)


def objectives_of(spec: AutoscalingSpec, *, slots_per_replica: int) -> Objectives:
    """Return the objectives of one model; `slots_per_replica`: requests that one runs at a time."""
    fallback, window = spec.fallback, spec.behavior.scale_down.stabilization_window_seconds
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
        slots_per_replica=slots_per_replica,
        idle_seconds=duration.parse(spec.scale_to_zero_after).total_seconds(),
        warm_replicas=spec.warm_replicas,
        fallback_replicas=fallback.replicas if fallback else None,
        fallback_ticks=fallback.failures if fallback else 0,
        scale_up=spec.behavior.scale_up,
        scale_down=spec.behavior.scale_down,
        settle_seconds=SETTLE_SECONDS if window is None else float(window),
    )
