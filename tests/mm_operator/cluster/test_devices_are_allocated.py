"""Devices as NVIDIA's driver offers them: claimed, allocated by the real scheduler, given back."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mm_api import labels
from mm_api.documents.engine_manifest import GpuIdentity
from mm_devcluster.cluster import ClusterInfo
from mm_operator.names import STORE_CLAIM
from support.absent_kubelet import built, inspected, pods, serving
from support.clusters import kubectl
from support.eventually import eventually
from support.gpu_nodes import H100, node_object
from support.model_configs import facts_of
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator
from support.volumes import made

pytestmark = pytest.mark.cluster

CLASS = "gpu.nvidia.com"
SERVERS = f"{labels.MODEL}=m,{labels.APP_COMPONENT}={labels.Component.SERVER}"


@contextmanager
def volume_of_the_store(api: Api) -> Iterator[None]:
    """Make what the namespace's store is bound to: a pod whose volumes are missing has no node."""
    name = f"store-{uuid4().hex[:8]}"
    volume = {
        "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
        "capacity": {"storage": "10Ti"},
        "hostPath": {"path": f"/var/lib/nowhere/{name}"},
        "claimRef": {"namespace": api.namespace, "name": STORE_CLAIM},
    }
    meta = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
    with made(api.cluster, {**meta, "spec": volume}):
        yield


@contextmanager
def node_with_devices(cluster: ClusterInfo, count: int) -> Iterator[str]:
    """Make a node that no kubelet stands behind, its devices and their class; all go at the end."""
    name = f"gpu-{uuid4().hex[:8]}"
    device = {
        "attributes": {
            "type": {"string": "gpu"},
            "productName": {"string": H100.replace("-", " ")},
            "cudaComputeCapability": {"version": "9.0.0"},
        },
        "capacity": {"memory": {"value": "81559Mi"}},
    }
    group = {"apiVersion": "resource.k8s.io/v1"}
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{index}", **device} for index in range(count)]
    chosen = f"device.driver == '{CLASS}' && device.attributes['{CLASS}'].type == 'gpu'"
    driver = {"driver": CLASS, "nodeName": name, "pool": pool, "devices": devices}
    with made(
        cluster,
        node_object(name, H100, **{"example.org/pool": name}),
        {**group, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": driver},
        {
            **group,
            "kind": "DeviceClass",
            "metadata": {"name": CLASS},
            "spec": {"selectors": [{"cel": {"expression": chosen}}]},
        },
    ):
        kubectl(cluster, "taint", "node", name, "node.kubernetes.io/not-ready-", check=False)
        room = {"cpu": "64", "memory": "1Ti", "pods": "100", "ephemeral-storage": "1Ti"}
        status = json.dumps({"status": {"capacity": room, "allocatable": room}})
        patch = ["patch", "node", name, "--subresource=status", "--type=merge", "-p", status]
        kubectl(cluster, *patch)
        yield name


def spec(node: str, team: str) -> dict[str, Any]:
    """Return a model of two ranks on one node, whose revision follows `team`."""
    place = {"nodeSelector": {"example.org/pool": node}, "tolerations": [{"operator": "Exists"}]}
    source = {"persistentVolumeClaim": None, "s3": {"bucket": "weights"}}
    runtime = {**place, "gpu": {"deviceClassName": CLASS}, "podLabels": {"team": team}}
    return {
        "engine": {"backend": "TensorRT", "parallelism": {"tensor": 2}},
        "model": {"source": source},
        "build": {**place, "trtllmVersion": "0.20.0"},
        "runtime": runtime,
    }


def allocated(api: Api) -> list[int]:
    claims = api.read("resourceclaims.resource.k8s.io")["items"]
    given = (one.get("status", {}).get("allocation", {}).get("devices", {}) for one in claims)
    return sorted(len(one["results"]) for one in given if one.get("results"))


def templates(api: Api) -> dict[str, str]:
    found = api.read("resourceclaimtemplates.resource.k8s.io", "-l", f"{labels.MODEL}=m")["items"]
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in found}


def waiting(api: Api) -> list[Any]:
    found = api.read("pods")["items"]
    return [one.get("status", {}).get("conditions") for one in found]


def rolling_out(api: Api) -> str:
    return str(api.condition("m", "RollingOut").get("message", ""))


def test_devices_are_claimed_one_after_the_other(api: Api, tmp_path: Path) -> None:
    """A build has one device, then the server both; the model says that its own pod holds them."""
    with (
        volume_of_the_store(api),
        node_with_devices(api.cluster, 2) as node,
        running_operator(api.cluster, tmp_path, api.namespace, watch_nodes=True),
    ):
        api.apply(document(spec(node, "first"), name="m"))
        inspected(api, "m", facts_of("llava"))
        eventually(lambda: allocated(api) == [1], showing=lambda: waiting(api))
        gpu = GpuIdentity(product=H100, compute_capability="9.0")
        built(api, gpu=gpu, versions={"tensorrt_llm": "0.20.0"})
        eventually(
            lambda: allocated(api) == [2],
            showing=lambda: (allocated(api), waiting(api), rolling_out(api)),
        )
        [pod] = pods(api, SERVERS)
        assert pod["spec"]["nodeName"] == node
        serving(api, "m")
        eventually(lambda: "every replica" in rolling_out(api), showing=lambda: rolling_out(api))

        [(name, uid)] = templates(api).items()
        api.kubectl("delete", "resourceclaimtemplate", name)
        eventually(lambda: templates(api).get(name, uid) != uid, showing=lambda: templates(api))

        api.apply(document(spec(node, "second"), name="m"))
        eventually(
            lambda: "the devices that it claims" in rolling_out(api),
            showing=lambda: rolling_out(api),
        )
