"""A node without the image of a model gets it by a Job that the real scheduler puts there."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mm_api import labels
from mm_devcluster.cluster import ClusterInfo
from support.absent_kubelet import built, end_pod, get, inspected, pods
from support.clusters import apply, kubectl
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator

pytestmark = pytest.mark.cluster

IMAGE = "localhost/multimodal/runtime:test"
PULLS = f"{labels.MODEL}=m,{labels.APP_COMPONENT}={labels.Component.PRE_PULL}"


@contextmanager
def nodes(cluster: ClusterInfo, pool: str, **images: str) -> Iterator[None]:
    """Make nodes that list one image each and are ready, though no kubelet stands behind them."""
    room = {"cpu": "64", "memory": "1Ti", "pods": "100", "ephemeral-storage": "1Ti"}
    try:
        for name, image in images.items():
            marks = {"example.org/pool": pool}
            node = {"apiVersion": "v1", "kind": "Node"}
            apply(cluster, {**node, "metadata": {"name": f"{pool}-{name}", "labels": marks}})
            status = {
                "capacity": room,
                "allocatable": room,
                "conditions": [{"type": "Ready", "status": "True"}],
                "images": [{"names": [image], "sizeBytes": 1}],
            }
            patch = ["--subresource=status", "--type=merge", "-p", json.dumps({"status": status})]
            kubectl(cluster, "patch", "node", f"{pool}-{name}", *patch)
        yield
    finally:
        kubectl(cluster, "delete", "node", "-l", f"example.org/pool={pool}", "--wait=false")


def spec(pool: str, *, pulls: bool) -> dict[str, Any]:
    """Return a model for nodes of a pool."""
    runtime: dict[str, Any] = {
        "nodeSelector": {"example.org/pool": pool},
        "tolerations": [{"operator": "Exists"}],
    }
    return {"runtime": runtime | ({"prePull": {"nodesAtOnce": 1}} if pulls else {})}


def said(api: Api) -> str:
    return str(get(api, "mmm", "m").get("status", {}).get("prePull", ""))


def test_a_node_without_the_image_pulls_it(api: Api, tmp_path: Path) -> None:
    """Not the one that lists it; the Job goes when nothing is to be pulled ahead any more."""
    pool = f"pool-{uuid4().hex[:8]}"
    with (
        nodes(api.cluster, pool, there=IMAGE, missing="example.org/other:1"),
        running_operator(api.cluster, tmp_path, api.namespace, watch_nodes=True),
    ):
        api.apply(document(spec(pool, pulls=True), name="m"))
        inspected(api, "m")
        built(api)
        eventually(
            lambda: (
                [one["spec"].get("nodeName") for one in pods(api, PULLS)] == [f"{pool}-missing"]
            ),
            showing=lambda: (said(api), api.read("pods", "-l", PULLS)["items"]),
        )
        [pod] = pods(api, PULLS)
        assert pod["spec"]["containers"][0]["image"] == IMAGE
        eventually(lambda: said(api).startswith("the image is on 1 of 2 nodes that take the pods"))
        end_pod(api, pod)
        eventually(
            lambda: said(api).startswith("the image is on 2 of 2"), showing=lambda: said(api)
        )

        api.apply(document(spec(pool, pulls=False), name="m"))
        eventually(lambda: not api.read("jobs", "-l", PULLS)["items"])
        eventually(lambda: not said(api), showing=lambda: said(api))
