"""Metrics of the autoscaler about each model it follows."""

import time
from collections.abc import Iterator

from mm_operator.cluster.keys import Key
from mm_operator.scaling.model_autoscaler import ModelAutoscaler
from mm_operator.scaling.scaler import Scaler
from mm_operator.status.series import Sample


def samples(scaler: Scaler) -> Iterator[Sample]:
    now = time.time()
    for key, replicas, autoscaler in scaler.autoscalers():
        yield from _of_one(key, replicas, autoscaler, now)


def _of_one(key: Key, replicas: int, autoscaler: ModelAutoscaler, now: float) -> Iterator[Sample]:
    model = (key.namespace, key.name)
    yield Sample("mm_autoscaling_applied_replicas", model, replicas)
    if (decision := autoscaler.decision) is not None:
        yield Sample("mm_autoscaling_desired_replicas", model, decision.replicas)
        available = float(decision.metrics_available)
        yield Sample("mm_autoscaling_metrics_available", model, available)
    if autoscaler.decided_at is not None:
        age = max(0.0, now - autoscaler.decided_at)
        yield Sample("mm_autoscaling_decision_age_seconds", model, age)
    for name, share in autoscaler.attainment.items():
        yield Sample("mm_autoscaling_slo_attainment", (*model, name), share)
    for phase, seconds in autoscaler.cold_starts.phases().items():
        yield Sample("mm_autoscaling_cold_start_seconds", (*model, phase), seconds)
    for (metric, label), count in autoscaler.counts.items():
        yield Sample(metric, (*model, label) if label else model, count)
