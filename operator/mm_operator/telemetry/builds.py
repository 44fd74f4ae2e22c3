"""Counts what became of builds, from two statuses of a model in a row.

A status is written once for each change and outlives the operator: what is counted from it is
counted once, whatever restarts in between.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mm_api.conditions import ConditionType
from mm_operator.status.events import finished_steps
from mm_operator.telemetry.metrics import Metrics

_OWN_STORE = "store"


def count_builds(
    metrics: Metrics, before: Mapping[str, Any], after: Mapping[str, Any], now: datetime
) -> None:
    """Count the steps, ends and reuses between two statuses."""
    old, new = before.get("build", {}), after.get("build", {})
    for step, seconds in finished_steps(old, new).items():
        metrics.histograms["mm_operator_build_step_seconds"].labels(step).observe(seconds)
    same = old.get("fingerprint") == new.get("fingerprint")
    if same and old.get("phase") == new.get("phase"):
        return
    origin, phase, started = new.get("reusedFrom"), new.get("phase"), new.get("startedAt")
    counters = metrics.counters
    if phase == "Succeeded" and origin:
        origin = _OWN_STORE if origin == _OWN_STORE else "model"
        counters["mm_operator_engine_reuses_total"].labels(origin).inc()
    elif phase in {"Succeeded", "Failed"}:
        if started:  # otherwise its pod was never seen
            seconds = (now - datetime.fromisoformat(started)).total_seconds()
            histogram = metrics.histograms["mm_operator_build_seconds"]
            histogram.labels(phase.lower()).observe(seconds)
        if phase == "Succeeded":
            counters["mm_operator_engine_bytes_total"].inc(new.get("storedBytes", 0))
        else:
            step = new.get("failedStep", "unknown")
            counters["mm_operator_build_failures_total"].labels(step, _reason(after)).inc()


def _reason(status: Mapping[str, Any]) -> str:
    found = (
        condition["reason"]
        for condition in status.get("conditions", ())
        if condition["type"] == ConditionType.ENGINE_BUILT
    )
    return next(found, "Unknown")
