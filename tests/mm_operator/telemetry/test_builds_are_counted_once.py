"""What the metrics say of builds, from the statuses that were written one after the other."""

from datetime import UTC, datetime
from typing import Any

from mm_operator.telemetry.builds import count_builds
from mm_operator.telemetry.metrics import Metrics
from support.golden import Golden

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RUNNING = {
    "fingerprint": "a",
    "phase": "Building",
    "startedAt": "2026-01-02T03:03:05Z",
    "stepSeconds": {"fetch": 2.0},
}
DONE = {**RUNNING, "phase": "Succeeded", "storedBytes": 10}


def status(build: dict[str, Any], reason: str = "BuildSucceeded") -> dict[str, Any]:
    return {"build": build, "conditions": [{"type": "EngineBuilt", "reason": reason}]}


def counted(*statuses: dict[str, Any]) -> set[str]:
    """Return the samples about builds that are not zero, after these statuses in a row."""
    metrics = Metrics()
    for before, after in zip(({}, *statuses), statuses, strict=False):
        count_builds(metrics, before, after, NOW)
    lines = metrics.snapshot()().decode().splitlines()
    return {
        line.removeprefix("mm_operator_")
        for line in lines
        if line.startswith(("mm_operator_build", "mm_operator_engine"))
        and "_bucket" not in line
        and "_created" not in line
        and not line.endswith(" 0.0")
    }


BUILDS: dict[str, list[dict[str, Any]]] = {
    "a-step": [status(RUNNING)],
    "reported-once": [status(RUNNING), status(RUNNING)],
    "built": [status(RUNNING), status(DONE), status(DONE)],
    "reused-from-a-model": [status({**DONE, "reusedFrom": "demo/one"})],
    "reused-from-the-store": [status({**DONE, "reusedFrom": "store"})],
    "failed-before-its-pod-was-seen": [
        status({"phase": "Failed", "failedStep": "export"}, "BuildOutOfMemory")
    ],
}


def test_samples(golden: Golden) -> None:
    found = {name: sorted(counted(*statuses)) for name, statuses in BUILDS.items()}
    golden.check_yaml("builds.yaml", found)
