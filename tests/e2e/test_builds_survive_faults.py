"""Builds that are killed, evicted, out of time or out of date end well, or say why not."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.clusters import eventually, kubectl
from support.installed import Installed, Space, model_space
from support.random_llava import write_random_llava

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

GPU = "/status/capacity/nvidia.com~1gpu"
"""JSON pointer to the fake GPUs of the node: a build that asks for one waits until there is one."""


@pytest.fixture(name="space", scope="module")
def space_with_checkpoint(
    installed: Installed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Space]:
    """Make a namespace whose claim holds a good checkpoint."""
    with model_space(installed, "build-faults") as space:
        root = tmp_path_factory.mktemp("checkpoint")
        write_random_llava(root / "good")
        space.upload(root, "")
        yield space


@pytest.fixture(autouse=True)
def _no_models_left(space: Space) -> Iterator[None]:
    """Delete each test's models, so that engines and pods do not meet the next test."""
    yield
    space.kubectl("delete", "mmm", "--all", "--timeout=90s")
    eventually(lambda: space.names("jobs") == [], timeout=60)


def patch_node(space: Space, *operations: dict[str, str]) -> None:
    """Patch the status of the one node."""
    nodes = kubectl(space.installed.cluster, "get", "nodes", "-o", "name").split()
    patch = ("--subresource=status", "--type=json", "-p", json.dumps(operations))
    kubectl(space.installed.cluster, "patch", nodes[0], *patch)


def build_only(space: Space, name: str, **parts: dict[str, Any]) -> dict[str, Any]:
    """Describe a model whose engine is built and that runs no pod."""
    model = space.model(name, "good", **parts)
    model["spec"]["replicas"] = 0
    return model


def build_pods(space: Space) -> list[dict[str, Any]]:
    """Return the pods of build Jobs."""
    pods = space.get("pods", "-l", "app.kubernetes.io/component=build")
    return list(pods.get("items", []))


def running_build_pod(space: Space) -> str:
    """Wait until a build's container runs and return its pod's name."""

    def running() -> list[str]:
        return [
            pod["metadata"]["name"]
            for pod in build_pods(space)
            if any(
                "running" in each["state"] for each in pod["status"].get("containerStatuses", [])
            )
        ]

    names = eventually(running, timeout=90)
    assert names, "no build pod runs"
    return names[0]


def build_pods_ever(space: Space) -> set[str]:
    """Return the names of all pods that build Jobs ever made here; Jobs themselves are removed."""
    created = ("--field-selector", "involvedObject.kind=Job,reason=SuccessfulCreate")
    events = space.get("events", *created).get("items", [])
    jobs = ((event["involvedObject"]["name"], event["message"]) for event in events)
    return {message for name, message in jobs if name.startswith("engine-")}


def test_out_of_memory_is_said_and_mended(space: Space) -> None:
    """A build that is killed for its memory says so; with more memory it goes on by itself."""
    starved = {"resources": {"limits": {"memory": "128Mi"}}, "retries": 0}
    space.apply(build_only(space, "starved", build=starved))
    condition = space.wait_reason("starved", "EngineBuilt", "BuildOutOfMemory")
    assert condition.status == "False"
    assert "memory" in condition.message
    space.apply(build_only(space, "starved", build={"resources": {"limits": {"memory": "4Gi"}}}))
    assert space.wait("starved", "EngineBuilt", lambda c: c.holds).reason == "BuildSucceeded"


def test_out_of_time_is_said(space: Space) -> None:
    """A build that takes longer than its timeout says so, in which step, and what to change."""
    space.apply(build_only(space, "late", build={"timeout": "2s", "retries": 0}))
    condition = space.wait_reason("late", "EngineBuilt", "BuildTimedOut")
    assert condition.status == "False"
    assert "spec.build.timeout" in condition.message
    assert condition.message.startswith("step ")


@pytest.mark.parametrize("way", ["evicted", "killed"])
def test_a_lost_pod_is_replaced(space: Space, way: str) -> None:
    """A build whose pod is evicted, or gone with its node, is tried again and succeeds."""
    space.apply(build_only(space, "lost"))
    pod = running_build_pod(space)
    if way == "evicted":
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": space.name},
        }
        path = f"/api/v1/namespaces/{space.name}/pods/{pod}/eviction"
        space.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    else:
        space.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
    assert space.wait("lost", "EngineBuilt", lambda c: c.holds).reason == "BuildSucceeded"


def test_a_checkpoint_changed_before_the_build_is_inspected_again(
    space: Space, tmp_path: Path
) -> None:
    """The build sees that the source is not the planned one; the new one is planned and built."""
    write_random_llava(tmp_path / "first")
    space.upload(tmp_path / "first", "changing")
    model = build_only(space, "changing", build={"gpu": {"count": 1}})
    model["spec"]["model"]["source"]["persistentVolumeClaim"]["path"] = "changing"
    space.apply(model)
    space.wait("changing", "Planned", lambda c: c.holds)
    before = space.read("changing")["status"]["plan"]["sourceDigest"]
    config = tmp_path / "first" / "generation_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "max_length": 77}))
    space.upload(tmp_path / "first", "changing")
    patch_node(space, {"op": "add", "path": GPU, "value": "1"})
    try:
        space.wait("changing", "EngineBuilt", lambda c: c.holds)
    finally:
        patch_node(space, {"op": "remove", "path": GPU})
    after = space.read("changing")["status"]["plan"]["sourceDigest"]
    assert after != before


def test_two_models_of_one_fingerprint_build_once(space: Space) -> None:
    """Models that need the same engine share one build."""
    before = build_pods_ever(space)
    space.apply(build_only(space, "first"), build_only(space, "second"))
    for name in ("first", "second"):
        space.wait(name, "EngineBuilt", lambda c: c.holds)
    plans = [space.read(name)["status"]["plan"]["fingerprint"] for name in ("first", "second")]
    assert plans[0] == plans[1]
    assert len(build_pods_ever(space) - before) == 1


def test_an_engine_outlives_one_of_its_models(space: Space) -> None:
    """Deleting one of two models leaves the shared store and engine to the other."""
    space.apply(build_only(space, "first"), build_only(space, "second"))
    for name in ("first", "second"):
        space.wait(name, "EngineBuilt", lambda c: c.holds)
    space.kubectl("delete", "mmm", "first", "--timeout=60s")
    assert space.get("pvc", "multimodal-store")["metadata"].get("deletionTimestamp") is None
    assert space.condition("second", "EngineBuilt").holds


def test_a_spec_changed_during_a_build_is_followed(space: Space) -> None:
    """The engine that ends up built is the one that the spec wants now."""
    space.apply(build_only(space, "moving", engine={"maxBatchSize": 3}))
    running_build_pod(space)
    space.apply(build_only(space, "moving", engine={"maxBatchSize": 5}))
    space.wait("moving", "EngineBuilt", lambda c: c.holds)
    status = space.read("moving")["status"]
    assert status["plan"]["limits"]["maxBatchSize"] == 5
    assert status["build"]["fingerprint"] == status["plan"]["fingerprint"]


def test_a_model_deleted_during_its_build_leaves_nothing(space: Space) -> None:
    """Jobs, pods, documents and the operator's own claim go with the last model."""
    space.apply(build_only(space, "gone"))
    running_build_pod(space)
    space.kubectl("delete", "mmm", "gone", "--timeout=60s")

    def left() -> dict[str, list[str]]:
        claims = [name for name in space.names("pvc") if name == "multimodal-store"]
        configs = [name for name in space.names("configmaps") if name != "kube-root-ca.crt"]
        return {
            "jobs": space.names("jobs"),
            "pods": space.names("pods"),
            "claims": claims,
            "configs": configs,
        }

    eventually(lambda: not any(left().values()), timeout=90)
    assert left() == {"jobs": [], "pods": [], "claims": [], "configs": []}


def test_a_quota_is_said_and_waited_for(space: Space) -> None:
    """Under a quota that allows no pod the model says so; once it allows pods, it goes on."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": space.name},
        "spec": {"hard": {"pods": "0"}},
    }
    space.apply(quota)
    eventually(lambda: space.get("resourcequota", "none").get("status", {}).get("hard"))
    try:
        space.apply(build_only(space, "waiting"))
        condition = space.wait_reason("waiting", "Planned", "QuotaExceeded")
        assert "quota" in condition.message
    finally:
        space.kubectl("delete", "resourcequota", "none")
    assert space.wait("waiting", "EngineBuilt", lambda c: c.holds).reason == "BuildSucceeded"
