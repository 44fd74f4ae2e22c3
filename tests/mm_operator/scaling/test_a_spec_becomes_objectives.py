"""`spec.autoscaling` in the policy's own values: what the user sets replaces the policy's."""

from typing import Any

from mm_api.v1alpha1 import AutoscalingSpec
from mm_operator.autoscaling import LatencyMetric, LatencyObjective, Objectives, Tuning
from mm_operator.autoscaling.demand import memory_seconds
from mm_operator.scaling.evaluation import objectives_of
from support.cases import cases
from support.ticks import tick

USUAL = Tuning()


def objectives(**spec: Any) -> Objectives:
    return objectives_of(AutoscalingSpec.model_validate(spec), slots_per_replica=4)


def test_bounds_and_latencies_are_those_of_the_spec() -> None:
    found = objectives(
        minReplicas=2,
        maxReplicas=6,
        warmReplicas=1,
        objectives=[{"metric": "InterTokenLatency", "percentile": 90, "target": "80ms"}],
    )

    assert (found.min_replicas, found.max_replicas, found.warm_replicas) == (2, 6, 1)
    assert found.latencies == (
        LatencyObjective(LatencyMetric("InterTokenLatency"), percentile=90, target_seconds=0.08),
    )
    assert (found.slots_per_replica, found.fallback_replicas, found.tuning) == (4, None, USUAL)


def test_the_fallback_counts_ticks() -> None:
    found = objectives(fallback={"failures": 7, "replicas": 5})

    assert (found.fallback_replicas, found.fallback_ticks) == (5, 7)


@cases("window memory", {"at-once": (0, 60.0), "short": (90, 90.0), "long": (3600, 150.0)})
def test_the_window_of_the_way_down_replaces_the_measured_one(window: int, memory: float) -> None:
    """Demand is remembered as long, one fast window at the least and no longer than usual."""
    found = objectives(behavior={"scaleDown": {"stabilizationWindowSeconds": window}})

    at_once = tick(0, 1, None, cold_start_seconds=0.0)
    assert found.settle_seconds == window
    assert memory_seconds(at_once, found) == memory
