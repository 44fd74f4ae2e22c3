"""The phase of a Job, from its conditions and from pods that may be reported before them."""

from datetime import datetime
from typing import Any

import pytest

from mm_operator.cluster.jobs import job_state

JOB = {"metadata": {"name": "build", "uid": "job", "creationTimestamp": "2026-01-02T03:04:05Z"}}
NOW = "2026-01-02T03:05:00Z"


def pod(phase: str, owner: str = "job") -> dict[str, Any]:
    """Return a pod of a Job."""
    return {
        "metadata": {"name": "build-x", "uid": phase, "ownerReferences": [{"uid": owner}]},
        "status": {"phase": phase},
    }


def ended(kind: str) -> dict[str, Any]:
    """Return a Job's status with one condition."""
    return {"conditions": [{"type": kind, "status": "True", "lastTransitionTime": NOW}]}


@pytest.mark.parametrize(
    ("status", "pods", "expected"),
    [
        pytest.param({}, [], "Pending", id="no-pod"),
        pytest.param({}, [pod("Pending")], "Pending", id="pod-waits"),
        pytest.param({}, [pod("Running")], "Running", id="pod-runs"),
        pytest.param({}, [pod("Succeeded")], "Running", id="pod-ended-well-before-its-job"),
        pytest.param({}, [pod("Failed")], "Pending", id="between-two-pods"),
        pytest.param({}, [pod("Failed"), pod("Running")], "Running", id="second-pod-runs"),
        pytest.param({}, [pod("Running", owner="former")], "Pending", id="pod-of-a-namesake"),
        pytest.param(ended("Complete"), [pod("Succeeded")], "Succeeded", id="complete"),
        pytest.param(ended("Failed"), [pod("Failed")], "Failed", id="failed"),
    ],
)
def test_phase(status: dict[str, Any], pods: list[dict[str, Any]], expected: str) -> None:
    """A Job's own end counts first; until then its pods say where it stands."""
    state = job_state({**JOB, "status": status}, pods, log_tails={})
    assert expected == state.phase


def test_the_pod_that_runs_now_reports_the_progress() -> None:
    """Start and progress are those of the newest pod that runs, not of one that failed before."""
    started = {"state": {"running": {"startedAt": NOW}}, "name": "build"}
    runs = pod("Running")
    runs["status"]["containerStatuses"] = [started]
    progress = {"Running": "third step", "Failed": "second step"}
    state = job_state(JOB, [pod("Failed"), runs], log_tails={}, progress=progress)
    assert (state.progress, state.started_at) == ("third step", datetime.fromisoformat(NOW))
