"""Which GPUs are free, as nodes and pods of a real API server say; a rollout that follows it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mm_api import labels
from mm_api.v1alpha1 import Toleration
from mm_devcluster.cluster import ClusterInfo
from mm_operator.cluster.spare_gpus import fits, offered, requested
from mm_operator.model import GpuNeed
from support.absent_kubelet import built, get, inspected, pods, serving
from support.bound_pods import bind
from support.cases import cases
from support.clusters import apply, kubectl
from support.eventually import eventually
from support.gpu_nodes import H100, node_object
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator

GPU = "nvidia.com/gpu"
SERVERS = f"{labels.MODEL}=m,{labels.APP_COMPONENT}={labels.Component.SERVER}"


def container(count: int, *, sidecar: bool = False) -> dict[str, Any]:
    return {"resources": {"limits": {GPU: str(count)}}} | (
        {"restartPolicy": "Always"} if sidecar else {}
    )


@cases(
    "spec expected",
    {
        "beside-each-other": ({"containers": [container(1), container(2)]}, 3),
        "one-before": ({"containers": [container(1)], "initContainers": [container(4)]}, 4),
        "sidecar": ({"containers": [{}], "initContainers": [container(2, sidecar=True)]}, 2),
        "before-beside-a-sidecar": (
            {"containers": [{}], "initContainers": [container(2, sidecar=True), container(1)]},
            3,
        ),
        "no-number": ({"containers": [{"resources": {"limits": {GPU: "?"}}}]}, 0),
    },
)
def test_a_pod_holds_what_the_scheduler_counts(spec: dict[str, Any], expected: int) -> None:
    """Sidecars hold theirs for the pod's life; init containers do not."""
    assert requested({"spec": spec}, GPU) == expected


@cases(
    "pods_ spare expected",
    {
        "one": ((1,), (0, 1), True),
        "not-across-nodes": ((2,), (1, 1), False),
        "server-and-encoder": ((2, 1), (2, 1), True),
        "no-room-for-the-encoder": ((2, 1), (2,), False),
        "both-on-one-node": ((2, 1), (3,), True),
    },
)
def test_pods_stay_on_one_node(
    pods_: tuple[int, ...], spare: tuple[int, ...], *, expected: bool
) -> None:
    """Each pod has its GPUs on one node, and two pods do not have the same GPU."""
    assert fits(pods_, spare) == expected


@cases(
    "spec tolerations expected",
    {
        "open": ({}, [], 8),
        "cordoned": ({"unschedulable": True}, [], 0),
        "tainted": ({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, [], 0),
        "tolerated": (
            {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
            [Toleration(key="gpu", operator="Exists")],
            8,
        ),
        "another-value": (
            {"taints": [{"key": "gpu", "value": "a", "effect": "NoExecute"}]},
            [Toleration(key="gpu", value="b")],
            0,
        ),
        "preferred": ({"taints": [{"key": "gpu", "effect": "PreferNoSchedule"}]}, [], 8),
    },
)
def test_nodes_that_take_no_pod_offer_nothing(
    spec: dict[str, Any], tolerations: list[Toleration], expected: int
) -> None:
    """As the scheduler sees cordons and taints."""
    node = {"spec": spec, "status": {"allocatable": {GPU: "8"}}}
    assert offered(node, GpuNeed(GPU, (1,), tolerations=tuple(tolerations))) == expected


@contextmanager
def node_with_gpus(cluster: ClusterInfo, count: int) -> Iterator[str]:
    """Make a node that no kubelet stands behind, with GPUs; it is removed in the end."""
    name = f"gpu-{uuid4().hex[:8]}"
    try:
        apply(cluster, node_object(name, H100, **{"example.org/pool": name}))
        kubectl(cluster, "taint", "node", name, "node.kubernetes.io/not-ready-", check=False)
        status = json.dumps({"status": {"allocatable": {GPU: str(count)}}})
        patch = ["patch", "node", name, "--subresource=status", "--type=merge", "-p", status]
        kubectl(cluster, *patch)
        yield name
    finally:
        kubectl(cluster, "delete", "node", name, "--ignore-not-found", "--wait=false")


def bound(api: Api, node: str) -> None:
    for pod in pods(api, SERVERS):
        if "nodeName" not in pod["spec"]:
            bind(api, pod, node)


def spec(node: str, team: str) -> dict[str, Any]:
    taints = [{"operator": "Exists"}]
    runtime = {
        "gpu": {"count": 1, "memory": "80Gi", "computeCapability": "9.0"},
        "nodeSelector": {"example.org/pool": node},
        "tolerations": taints,
        "podLabels": {"team": team},
    }
    rollout = {"strategy": "Auto"}
    return {"runtime": runtime, "vision": {"engine": "Torch"}, "rollout": rollout}


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("count", "strategy", "said"),
    [
        pytest.param(
            1,
            "Recreate",
            "Auto ends the old pods first, because no node has",
            id="full",
            marks=pytest.mark.slow,
        ),
        pytest.param(2, "RollingUpdate", "Auto rolls, because 1 nvidia.com/gpu", id="spare"),
    ],
)
def test_a_rollout_goes_the_way_that_is_free(
    api: Api, tmp_path: Path, count: int, strategy: str, said: str
) -> None:
    """One GPU that the model's own pod holds: that pod goes first. Another one: it stays."""
    with (
        node_with_gpus(api.cluster, count) as node,
        running_operator(api.cluster, tmp_path, api.namespace, watch_nodes=True),
    ):
        api.apply(document(spec(node, "first"), name="m"))
        inspected(api, "m")
        built(api)
        eventually(lambda: pods(api, SERVERS))
        bound(api, node)
        serving(api, "m")

        api.apply(document(spec(node, "second"), name="m"))
        choice = labels.ROLLOUT_CHOICE

        def chosen() -> str:
            marks = get(api, "deployment", "m")["metadata"]["annotations"]
            return str(marks.get(choice, ""))

        eventually(chosen, showing=lambda: get(api, "mmm", "m")["status"]["conditions"])
        assert said in chosen()
        assert get(api, "deployment", "m")["spec"]["strategy"]["type"] == strategy

        def reported() -> str:
            found = get(api, "mmm", "m")["status"]["conditions"]
            return next(str(one["message"]) for one in found if one["type"] == "RollingOut")

        eventually(lambda: said in reported(), showing=reported)
