"""Another runtime image on a real API server: one model after the other, and none after a failure.

The Deployment controller is the real one; what a kubelet would write into pods comes from here.
"""

from pathlib import Path
from typing import Any

import pytest

from mm_api import labels
from support.absent_kubelet import built, get, inspected, pods, ready_status, set_status
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator

pytestmark = pytest.mark.cluster

REPLICAS = {"busy": 3, "idle": 1, "other": 2}
"""Least used first, where nothing counts requests: idle, other, busy."""

NEXT = "--runtime-image=localhost/multimodal/runtime:next"
REPAIRED = "--runtime-image=localhost/multimodal/runtime:repaired"


def image(api: Api, model: str) -> str:
    found = get(api, "deployment", model)["spec"]["template"]["spec"]["containers"][0]["image"]
    return str(found).rpartition(":")[2]


def images(api: Api) -> dict[str, str]:
    return {model: image(api, model) for model in REPLICAS}


def said(api: Api, model: str) -> str:
    return str(api.condition(model, "RollingOut").get("message", ""))


def reasons(api: Api) -> dict[str, str]:
    return {model: api.condition(model, "RollingOut").get("reason", "") for model in REPLICAS}


def fresh(api: Api, model: str, tag: str) -> list[dict[str, Any]]:
    selector = f"{labels.MODEL}={model},{labels.APP_COMPONENT}={labels.Component.SERVER}"

    def found() -> list[dict[str, Any]]:
        return [
            pod
            for pod in pods(api, selector)
            if pod["spec"]["containers"][0]["image"].endswith(f":{tag}")
        ]

    return eventually(found)


def crash(api: Api, model: str, tag: str) -> None:
    for pod in fresh(api, model, tag):
        waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting"}
        container = pod["spec"]["containers"][0]
        state = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": False,
            "restartCount": 3,
            "state": {"waiting": waiting},
        }
        placed = [one for one in ready_status(pod)["conditions"] if one["type"] == "PodScheduled"]
        crashed = {"phase": "Running", "conditions": placed, "containerStatuses": [state]}
        set_status(api, pod, crashed)


def answer(api: Api, model: str, tag: str) -> None:
    def all_answer() -> bool:
        for pod in fresh(api, model, tag):
            if "Ready" not in str(pod["status"].get("conditions")):
                set_status(api, pod, ready_status(pod))
        return api.condition(model, "RollingOut").get("reason") == "RolloutComplete"

    eventually(all_answer, showing=lambda: api.condition(model, "RollingOut"))


def become(api: Api, expected: dict[str, str], read: Any = images) -> None:
    eventually(lambda: read(api) == expected, showing=lambda: (read(api), reasons(api)))


def serve(api: Api) -> None:
    for model, replicas in REPLICAS.items():
        api.apply(document({"replicas": replicas}, name=model))
        inspected(api, model)
    built(api)
    for model in REPLICAS:
        answer(api, model, "test")
    become(api, dict.fromkeys(REPLICAS, "RolloutComplete"), reasons)


@pytest.mark.slow
def test_an_upgrade_goes_model_by_model_and_stops(api: Api, tmp_path: Path) -> None:
    with running_operator(api.cluster, tmp_path, api.namespace) as first:
        serve(api)
        assert first.stop() == 0  # its Lease is free at once
    with running_operator(api.cluster, tmp_path, api.namespace, arguments=(NEXT,)) as second:
        become(api, {"busy": "test", "idle": "next", "other": "test"})
        api.reaches("busy", "RollingOut", "WaitingForTurn")
        assert api.condition("busy", "Ready")["status"] == "True"
        answer(api, "idle", "next")
        become(api, {"busy": "test", "idle": "next", "other": "next"})
        crash(api, "other", "next")
        become(
            api,
            {"busy": "RolloutsStopped", "idle": "RolloutComplete", "other": "PodsCrashing"},
            reasons,
        )
        assert f"{api.namespace}/other failed" in api.condition("busy", "RollingOut")["message"]
        assert second.stop() == 0

    with running_operator(api.cluster, tmp_path, api.namespace, arguments=(REPAIRED,)):
        become(api, {"busy": "test", "idle": "next", "other": "repaired"})
        answer(api, "other", "repaired")
        become(api, {"busy": "test", "idle": "repaired", "other": "repaired"})
        answer(api, "idle", "repaired")
        become(api, {"busy": "repaired", "idle": "repaired", "other": "repaired"})
        answer(api, "busy", "repaired")
        become(api, dict.fromkeys(REPLICAS, "RolloutComplete"), reasons)
