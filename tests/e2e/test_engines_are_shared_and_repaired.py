"""An engine is built once for two models, again when it is damaged, and goes when unused."""

import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mm_devcluster.demo.walk import Condition
from support.builds import back_offs, pods_ever
from support.eventually import eventually
from support.installed import RESOURCES, Installed, Space, model_space
from support.tiny_llava import CHECKPOINT

log = logging.getLogger(__name__)

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(600)]

FLIP = (
    "import pathlib, sys; path = pathlib.Path(sys.argv[1]);"
    "data = bytearray(path.read_bytes()); data[len(data) // 2] ^= 1; path.write_bytes(data)"
)


@pytest.fixture(name="space", scope="module")
def served_model(installed: Installed) -> Iterator[Space]:
    with model_space(installed, "engines") as space:
        space.upload(CHECKPOINT, "tiny")
        space.apply(space.model("first", "tiny"))
        space.wait_ready("first")
        yield space


def build_of(space: Space, model: str) -> dict[str, Any]:
    found: dict[str, Any] = space.read(model)["status"]["build"]
    return found


def flip_a_byte(space: Space, fingerprint: str) -> None:
    """Change one bit of the language model in the store, as a bad disk does."""
    path = f"/mnt/store/engines/{fingerprint}/llm/model.safetensors"
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "disk",
        "image": space.installed.session.image_reference("runtime"),
        "command": ["python3", "-c", FLIP, path],
        "securityContext": security,
        "volumeMounts": [{"name": "store", "mountPath": "/mnt/store"}],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bad-disk", "namespace": space.name},
        "spec": {
            "restartPolicy": "Never",
            "containers": [container],
            "volumes": [
                {"name": "store", "persistentVolumeClaim": {"claimName": "multimodal-store"}}
            ],
        },
    }
    space.apply(pod)
    ended = eventually(
        lambda: space.get("pod", "bad-disk").get("status", {}).get("phase") == "Succeeded"
    )
    assert ended, space.kubectl("logs", "bad-disk", check=False)


def test_the_second_model_needs_no_build(space: Space) -> None:
    """A model with the same fingerprint becomes Ready with `reusedFrom` set and without a Job."""
    before = pods_ever(space, "engine-")
    space.apply(space.model("second", "tiny"))

    space.wait_ready("second")

    build = build_of(space, "second")
    assert build["reusedFrom"] == f"{space.name}/first"
    assert build["fingerprint"] == build_of(space, "first")["fingerprint"]
    assert "jobName" not in build
    assert pods_ever(space, "engine-") == before
    space.kubectl("delete", "mmm", "second", "--timeout=60s")


@pytest.mark.slow  # a pod drains, one refuses, a build repairs, another one starts
def test_a_damaged_engine_is_built_again(space: Space) -> None:
    """A pod that starts with a damaged file refuses it by name; the operator builds it again."""
    before = build_of(space, "first")
    flip_a_byte(space, before["fingerprint"])

    # Not waited for: a pod takes as long to drain as another one to refuse and a build to repair.
    server = "app.kubernetes.io/component=server"
    space.kubectl("delete", "pod", "-l", server, "--wait=false")

    def repaired(one: Condition) -> bool:
        return one.holds and "safetensors is damaged" in one.message

    space.wait("first", "EngineBuilt", repaired)
    built = time.monotonic()
    space.wait_ready("first")
    log.info("Ready %.0f s after the engine was complete again", time.monotonic() - built)
    assert back_offs(space, "first") == []
    chosen = "involvedObject.name=first,type=Warning,reason=EngineCorrupt"
    reported = [one["message"] for one in space.get("events", "--field-selector", chosen)["items"]]
    assert any("model.safetensors is damaged: sha256" in message for message in reported)
    after = build_of(space, "first")
    assert after["fingerprint"] == before["fingerprint"]
    assert after["manifestSha256"] != before["manifestSha256"]


@pytest.mark.slow
def test_unused_engines_are_removed(space: Space) -> None:
    """After a change of the spec the former engine goes from the store, the present one stays."""
    former = build_of(space, "first")["fingerprint"]
    changed = {"store": {"size": "1Gi", "gcAfter": "10s"}, "resources": RESOURCES}
    space.apply(space.model("first", "tiny", engine={"maxBatchSize": 3}, build=changed))
    wanted = eventually(lambda: space.read("first")["status"]["plan"]["fingerprint"] != former)
    assert wanted
    space.wait_ready("first")

    def removed() -> list[str]:
        pods = space.get("pods", "-l", "app.kubernetes.io/component=sweep").get("items", [])
        ends = [pod["status"].get("containerStatuses", [{}])[0].get("state", {}) for pod in pods]
        texts = [end["terminated"]["message"] for end in ends if "terminated" in end]
        return [gone for text in texts for gone in json.loads(text)["removed"]]

    assert eventually(removed, seconds=300) == [former]
    assert space.condition("first", "Ready").holds
