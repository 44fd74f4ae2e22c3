"""Rollouts on the real Deployment controller: with a spare GPU, and without one."""

from typing import Any

import pytest

from mm_api import labels
from support.absent_kubelet import built, get, inspected, pods, serving, set_status
from support.bound_pods import bind
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api

pytestmark = pytest.mark.cluster

SERVERS = f"{labels.MODEL}=m,{labels.APP_COMPONENT}={labels.Component.SERVER}"
FULL = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def spec(team: str, **rollout: object) -> dict[str, Any]:
    return {"runtime": {"podLabels": {"team": team}}, "rollout": rollout}


def teams(api: Api) -> list[str]:
    return sorted(one["metadata"]["labels"]["team"] for one in pods(api, SERVERS))


def test_a_rollout_without_room_says_who_holds_it(watched: Api) -> None:
    """Rolling waits beside its own old pod and says so; Recreate then ends it, and it starts."""
    watched.apply(document(spec("first"), name="m"))
    inspected(watched, "m")
    built(watched)
    serving(watched, "m")
    watched.reaches("m", "RollingOut", "RolloutComplete")

    watched.apply(document(spec("second"), name="m"))
    eventually(lambda: teams(watched) == ["first", "second"])
    for pod in pods(watched, f"{SERVERS},team=second"):
        unscheduled = {"type": "PodScheduled", "status": "False", "message": FULL}
        set_status(watched, pod, {"conditions": [{**unscheduled, "reason": "Unschedulable"}]})
    holds = "own 1 pod of the former revision holds nvidia.com/gpu"
    watched.reaches("m", "RollingOut", "PodsUnschedulable", holds)

    watched.apply(document(spec("second", strategy="Recreate"), name="m"))
    eventually(lambda: teams(watched) == ["second"], showing=lambda: teams(watched))
    assert get(watched, "deployment", "m")["spec"]["strategy"] == {"type": "Recreate"}
    serving(watched, "m")
    watched.reaches("m", "RollingOut", "RolloutComplete")


def test_a_refusal_of_the_former_revision_hides_nothing(watched: Api) -> None:
    """The API server refused its pods; what stops the present one is reported in its place."""
    watched.apply(document({"runtime": {"priorityClassName": "does-not-exist"}}, name="m"))
    inspected(watched, "m")
    built(watched)
    watched.reaches("m", "RollingOut", "FailedCreate", "does-not-exist")

    watched.apply(document({}, name="m"))
    (pod,) = eventually(lambda: pods(watched, SERVERS))
    bind(watched, pod, "a-node")
    set_status(watched, pod, {"conditions": [{"type": "PodScheduled", "status": "True"}]})
    starting = watched.reaches("m", "RollingOut", "PodsStarting")
    assert "does-not-exist" in str(get(watched, "deployment", "m")["status"]["conditions"])
    assert "does-not-exist" not in starting["message"]


def test_without_a_surge_an_old_pod_goes_first(watched: Api) -> None:
    """MaxSurge 0 and maxUnavailable 1 replace pods without one above the wanted number."""
    rollout = {"maxSurge": 0, "maxUnavailable": 1}
    watched.apply(document({**spec("first", strategy="Recreate"), "replicas": 2}, name="m"))
    inspected(watched, "m")
    built(watched)
    eventually(lambda: teams(watched) == ["first", "first"])
    serving(watched, "m")
    watched.reaches("m", "RollingOut", "RolloutComplete")

    watched.apply(document({**spec("second", **rollout), "replicas": 2}, name="m"))
    eventually(lambda: teams(watched) == ["first", "second"], showing=lambda: teams(watched))
    strategy = get(watched, "deployment", "m")["spec"]["strategy"]
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": rollout}
