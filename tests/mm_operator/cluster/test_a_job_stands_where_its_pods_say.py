"""The phase of a Job, from its conditions and from pods that may be reported before them."""

from datetime import datetime
from typing import Any

from mm_operator.cluster.observe import job_state
from support.cases import cases

JOB = {"metadata": {"name": "build", "uid": "job", "creationTimestamp": "2026-01-02T03:04:05Z"}}
NOW = "2026-01-02T03:05:00Z"


def pod(phase: str, owner: str = "job") -> dict[str, Any]:
    return {
        "metadata": {"name": "build-x", "uid": phase, "ownerReferences": [{"uid": owner}]},
        "status": {"phase": phase},
    }


def ended(kind: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "True", "lastTransitionTime": NOW}]}


@cases(
    "status pods expected",
    {
        "no-pod": ({}, [], "Pending"),
        "pod-waits": ({}, [pod("Pending")], "Pending"),
        "pod-runs": ({}, [pod("Running")], "Running"),
        "pod-ended-well-before-its-job": ({}, [pod("Succeeded")], "Running"),
        "between-two-pods": ({}, [pod("Failed")], "Pending"),
        "second-pod-runs": ({}, [pod("Failed"), pod("Running")], "Running"),
        "pod-of-a-namesake": ({}, [pod("Running", owner="former")], "Pending"),
        "complete": (ended("Complete"), [pod("Succeeded")], "Succeeded"),
        "failed": (ended("Failed"), [pod("Failed")], "Failed"),
    },
)
def test_phase(status: dict[str, Any], pods: list[dict[str, Any]], expected: str) -> None:
    state = job_state({**JOB, "status": status}, pods, log_tails={})
    assert expected == state.phase


def test_the_pod_that_runs_now_reports_the_progress() -> None:
    started = {"state": {"running": {"startedAt": NOW}}, "name": "build"}
    runs = pod("Running")
    runs["status"]["containerStatuses"] = [started]
    progress = {"Running": "third step", "Failed": "second step"}
    state = job_state(JOB, [pod("Failed"), runs], log_tails={}, progress=progress)
    assert (state.progress, state.started_at) == ("third step", datetime.fromisoformat(NOW))
