"""An operator killed in any stage is replaced; the new one finishes with nothing done twice."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mm_devcluster.demo import settings
from support.clusters import eventually, kubectl
from support.installed import Installed, Space, model_space, operator_pods
from support.tiny_llava import CHECKPOINT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

STAGES = {
    "inspect": ("Planned", ("Inspecting", "InspectPending")),
    "build": ("EngineBuilt", ("Building", "BuildPending")),
    "rollout": ("RollingOut", ("PodsStarting", "RolloutInProgress")),
}
"""Stage, the condition that tells it, and its reasons while the stage is under way."""


@pytest.fixture(name="space", scope="module")
def space_with_checkpoint(installed: Installed) -> Iterator[Space]:
    """Make a namespace whose claim holds the tiny model."""
    with model_space(installed, "operator-killed") as space:
        space.upload(CHECKPOINT, "tiny")
        yield space


def lease(installed: Installed) -> dict[str, Any]:
    """Return the Lease that says who leads."""
    where = ("--namespace", settings.SYSTEM_NAMESPACE)
    text = kubectl(installed.cluster, "get", "lease", settings.RELEASE, *where, "-o", "json")
    document: dict[str, Any] = json.loads(text)
    return document


def holder(installed: Installed) -> str:
    """Return the identity of the leader, empty when nobody leads."""
    return str(lease(installed)["spec"].get("holderIdentity") or "")


def kill_leader(installed: Installed) -> str:
    """Kill the leading operator's process as the kernel would; return its identity."""
    identity = eventually(lambda: holder(installed), timeout=60)
    pod = next(
        pod for pod in operator_pods(installed) if identity.startswith(pod["metadata"]["name"])
    )
    uid = pod["metadata"]["uid"]
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and is_operator(process, uid):
            os.kill(int(process.name), signal.SIGKILL)
            return identity
    raise AssertionError(f"no process of pod {pod['metadata']['name']} on this machine")


def is_operator(process: Path, pod_uid: str) -> bool:
    """Tell whether a process is the operator of a pod: named so, and in the pod's cgroup."""
    try:
        return (
            b"mm-operator" in (process / "cmdline").read_bytes()
            and pod_uid in (process / "cgroup").read_text()
        )
    except OSError:
        return False  # it has just ended


@pytest.mark.parametrize("stage", STAGES)
def test_the_next_leader_finishes(space: Space, stage: str) -> None:
    """The model becomes Ready with one inspection, one build and one Deployment."""
    kind, reasons = STAGES[stage]
    batch = 2 + list(STAGES).index(stage)  # an engine of its own: a build that really runs
    space.apply(space.model("held", "tiny", engine={"maxBatchSize": batch}))
    space.wait_reason("held", kind, *reasons)
    killed = kill_leader(space.installed)
    space.wait_ready("held")
    assert holder(space.installed) not in {"", killed}
    jobs = [name for name in space.names("jobs") if not name.startswith("held-inspect-")]
    inspections = len(space.names("jobs")) - len(jobs)
    # Inspect Jobs are removed once their facts are recorded; a second one would be too many.
    assert (len(jobs) <= 1, inspections <= 1) == (True, True)
    assert space.read("held")["status"]["build"]["attempts"] == 1
    assert space.names("deployments") == ["held"]
    space.kubectl("delete", "mmm", "held", "--timeout=60s")
    eventually(lambda: space.names("pods") == [], timeout=60)
    assert (space.names("pods"), space.names("jobs")) == ([], [])
