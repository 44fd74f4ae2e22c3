"""Rollouts on the real Deployment controller: with a spare GPU, and without one."""

from pathlib import Path
from typing import Any

import pytest

from mm_api import labels
from support.absent_kubelet import built, get, inspected, pods, serving, set_status
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator

pytestmark = pytest.mark.cluster

SERVERS = f"{labels.MODEL}=m,{labels.APP_COMPONENT}={labels.Component.SERVER}"
FULL = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def spec(team: str, **rollout: object) -> dict[str, Any]:
    """Return a spec whose revision follows `team`."""
    return {"runtime": {"podLabels": {"team": team}}, "rollout": rollout}


def teams(api: Api) -> list[str]:
    """Return the revisions of the pods that there are."""
    return sorted(one["metadata"]["labels"]["team"] for one in pods(api, SERVERS))


def rolling_out(api: Api) -> dict[str, Any]:
    """Return the model's condition RollingOut."""
    found = get(api, "mmm", "m").get("status", {}).get("conditions", [])
    return next((one for one in found if one["type"] == "RollingOut"), {})


def test_a_rollout_without_room_says_who_holds_it(api: Api, tmp_path: Path) -> None:
    """Rolling waits beside its own old pod and says so; Recreate then ends it, and it starts."""
    with running_operator(api.cluster, tmp_path, api.namespace):
        api.apply(document(spec("first"), name="m"))
        inspected(api, "m")
        built(api)
        serving(api, "m")
        eventually(lambda: rolling_out(api).get("reason") == "RolloutComplete")

        api.apply(document(spec("second"), name="m"))
        eventually(lambda: teams(api) == ["first", "second"])
        for pod in pods(api, f"{SERVERS},team=second"):
            unscheduled = {"type": "PodScheduled", "status": "False", "message": FULL}
            set_status(api, pod, {"conditions": [{**unscheduled, "reason": "Unschedulable"}]})
        eventually(
            lambda: (
                "own 1 pod of the former revision holds nvidia.com/gpu"
                in rolling_out(api).get("message", "")
            ),
            showing=lambda: rolling_out(api),
        )
        assert rolling_out(api)["reason"] == "PodsUnschedulable"

        api.apply(document(spec("second", strategy="Recreate"), name="m"))
        eventually(lambda: teams(api) == ["second"], showing=lambda: teams(api))
        assert get(api, "deployment", "m")["spec"]["strategy"] == {"type": "Recreate"}
        serving(api, "m")
        eventually(lambda: rolling_out(api).get("reason") == "RolloutComplete")


def test_without_a_surge_an_old_pod_goes_first(api: Api, tmp_path: Path) -> None:
    """MaxSurge 0 and maxUnavailable 1 replace pods without one above the wanted number."""
    rollout = {"maxSurge": 0, "maxUnavailable": 1}
    with running_operator(api.cluster, tmp_path, api.namespace):
        api.apply(document({**spec("first", strategy="Recreate"), "replicas": 2}, name="m"))
        inspected(api, "m")
        built(api)
        eventually(lambda: teams(api) == ["first", "first"])
        serving(api, "m")
        eventually(lambda: rolling_out(api).get("reason") == "RolloutComplete")

        api.apply(document({**spec("second", **rollout), "replicas": 2}, name="m"))
        eventually(lambda: teams(api) == ["first", "second"], showing=lambda: teams(api))
        strategy = get(api, "deployment", "m")["spec"]["strategy"]
        assert strategy == {"type": "RollingUpdate", "rollingUpdate": rollout}
