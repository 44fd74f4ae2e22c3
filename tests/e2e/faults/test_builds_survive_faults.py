"""A build that loses its pod, its plan, its source or its model ends as if nothing had happened.

They repeat on a cluster what `tests/mm_operator/plan` and `tests/scenarios` show of the decision.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.builds import SLOW, build_only, first_build, pods_ever, running_build
from support.cases import cases
from support.eventually import eventually
from support.installed import Space
from support.outside import kill_container
from support.random_llava import write_random_llava

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]

HALF_A_CPU = {"requests": SLOW["requests"], "limits": {"cpu": "500m", "memory": "2Gi"}}
"""A build takes half a minute with it; the operator looks every 2 s."""


def evict(space: Space, pod: dict[str, Any]) -> None:
    name = pod["metadata"]["name"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": space.name},
    }
    path = f"/api/v1/namespaces/{space.name}/pods/{name}/eviction"
    space.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))


def delete(space: Space, pod: dict[str, Any]) -> None:
    """Delete a pod without waiting for its end, as someone does who lost patience."""
    space.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")


def kill(_space: Space, pod: dict[str, Any]) -> None:
    kill_container(pod, "mm-runtime")


@cases("way", {"evicted": evict, "deleted": delete, "killed": kill})
def test_a_lost_pod_is_replaced(alone: Space, way: Any) -> None:
    """The Job makes a second pod, and that one finishes; no second Job is needed."""
    alone.apply(build_only(alone, "lost", "good"))
    job = first_build(alone, "lost")
    before = pods_ever(alone, job)

    way(alone, running_build(alone, job))

    assert alone.wait("lost", "EngineBuilt", lambda one: one.holds).reason == "BuildSucceeded"
    assert alone.read("lost")["status"]["build"]["attempts"] == 1
    assert len(pods_ever(alone, job)) == len(before) + 1


def test_more_memory_is_all_that_a_starved_build_needs(alone: Space) -> None:
    # Less than Python and torch allocate. With twice as much the kernel takes mapped files away
    # again and again, and the step crawls for minutes without being killed.
    starved = {"resources": {"limits": {"memory": "100Mi"}}, "retries": 0}
    alone.apply(build_only(alone, "starved", "good", build=starved))
    alone.wait_reason("starved", "EngineBuilt", "BuildOutOfMemory")

    alone.apply(build_only(alone, "starved", "good"))

    assert alone.wait("starved", "EngineBuilt", lambda one: one.holds).reason == "BuildSucceeded"


def test_a_changed_checkpoint_is_inspected_again(
    alone: Space, tmp_path: Path, open_gate: Any
) -> None:
    """The build sees that the source is not the planned one; the new one is planned and built."""
    source = write_random_llava(tmp_path / "first")
    alone.upload(source, "changing")
    alone.apply(build_only(alone, "changing", "changing", build={"gpu": {"count": 1}}))
    former = first_build(alone, "changing")
    before = alone.read("changing")["status"]["plan"]
    config = source / "generation_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "max_length": 77}))
    alone.upload(source, "changing")

    open_gate()

    alone.wait("changing", "EngineBuilt", lambda one: one.holds)
    after = alone.read("changing")["status"]
    chosen = "involvedObject.name=changing,reason=SourceChanged"
    eventually(lambda: alone.get("events", "--field-selector", chosen)["items"])
    assert before["sourceDigest"] != after["plan"]["sourceDigest"]
    assert before["fingerprint"] != after["build"]["fingerprint"]
    assert former.removesuffix("-1") not in alone.names("configmaps")


def test_a_running_build_reports_its_step(alone: Space) -> None:
    """The status says which step runs and since when; each finished step becomes an Event."""
    alone.apply(build_only(alone, "reported", "good", build={"resources": HALF_A_CPU}))

    def stands() -> dict[str, Any]:
        found: dict[str, Any] = alone.read("reported").get("status", {}).get("build", {})
        return found if found.get("phase") == "Building" and "step" in found else {}

    reported = eventually(stands, seconds=180)

    assert reported, alone.read("reported")["status"]
    assert re.fullmatch(r"[1-9] of [1-9](, [0-9]{1,3} %)?", reported["progress"]), reported
    assert reported["startedAt"]
    alone.wait("reported", "EngineBuilt", lambda one: one.holds)
    built = alone.read("reported")["status"]["build"]
    chosen = "involvedObject.name=reported,reason=BuildStepFinished"

    def events() -> int:
        return len(alone.get("events", "--field-selector", chosen)["items"])

    assert (built["phase"], "step" in built) == ("Succeeded", False)
    # Posted in the background, after the status.
    eventually(lambda: events() >= len(built["stepSeconds"]), showing=events)
    assert events() == len(built["stepSeconds"])


def test_a_model_deleted_during_its_build_leaves_nothing(alone: Space) -> None:
    alone.apply(build_only(alone, "gone", "good"))
    running_build(alone, first_build(alone, "gone"))

    alone.kubectl("delete", "mmm", "gone", "--timeout=60s")

    def left() -> list[str]:
        kinds = ("jobs", "pods", "configmaps", "pvc", "deployments", "services")
        stay = {"kube-root-ca.crt", "checkpoints"}
        return [name for kind in kinds for name in alone.names(kind) if name not in stay]

    eventually(lambda: not left(), seconds=90)
    assert left() == []
