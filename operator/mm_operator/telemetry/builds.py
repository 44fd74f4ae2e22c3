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
        metrics.step_finished(step, seconds)
    same = old.get("fingerprint") == new.get("fingerprint")
    if same and old.get("phase") == new.get("phase"):
        return
    origin = new.get("reusedFrom")
    if new.get("phase") == "Succeeded" and origin:
        metrics.engine_reused(_OWN_STORE if origin == _OWN_STORE else "model")
    elif new.get("phase") == "Succeeded":
        metrics.build_ended("succeeded", _seconds(new, now))
        metrics.engine_stored(new.get("storedBytes", 0))
    elif new.get("phase") == "Failed":
        metrics.build_ended("failed", _seconds(new, now))
        metrics.build_failed(new.get("failedStep", "unknown"), _reason(after))


def _seconds(build: Mapping[str, Any], now: datetime) -> float | None:
    started = build.get("startedAt")
    return (now - datetime.fromisoformat(started)).total_seconds() if started else None


def _reason(status: Mapping[str, Any]) -> str:
    found = (
        condition["reason"]
        for condition in status.get("conditions", ())
        if condition["type"] == ConditionType.ENGINE_BUILT
    )
    return next(found, "Unknown")
