"""A model for a GPU on the real API server: requested, planned from node labels, planned again."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mm_devcluster.cluster import ClusterInfo
from support.absent_kubelet import get, inspected
from support.clusters import kubectl
from support.eventually import eventually
from support.gpu_nodes import H100, node_object
from support.model_configs import facts_of
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator
from support.volumes import made

pytestmark = pytest.mark.cluster

L40S = "NVIDIA-L40S"
SPEC = {
    "engine": {"backend": "TensorRT"},
    "build": {"trtllmVersion": "0.20.0"},
    # The cluster may have other nodes.
    "runtime": {"nodeSelector": {"example.org/pool": "test"}},
}


@contextmanager
def gpu_node(cluster: ClusterInfo) -> Iterator[str]:
    name = f"gpu-{uuid4().hex[:8]}"
    with made(cluster, node_object(name, H100, **{"example.org/pool": "test"})):
        yield name


def conditions(api: Api) -> dict[str, Any]:
    found = get(api, "mmm", "m").get("status", {}).get("conditions", [])
    return {one["type"]: one for one in found}


def planned(api: Api, status: str, reason: str) -> dict[str, Any]:
    wanted = (status, reason)

    def reached() -> dict[str, Any]:
        now = conditions(api).get("Planned", {})
        return now if (now.get("status"), now.get("reason")) == wanted else {}

    found = eventually(reached)
    assert found, conditions(api)
    return found


def engine_jobs(api: Api) -> dict[str, dict[str, Any]]:
    items = api.read("jobs")["items"]
    pods = [
        job["spec"]["template"]["spec"]
        for job in items
        if job["metadata"]["name"].startswith("engine-")
    ]
    return {pod["nodeSelector"]["nvidia.com/gpu.product"]: pod for pod in pods}


def test_labels_of_nodes_plan_and_plan_again(api: Api, tmp_path: Path) -> None:
    """No node: a question. A node: a plan and a build for it. Other labels: another of both."""
    with running_operator(api.cluster, tmp_path, api.namespace, watch_nodes=True):
        api.apply(document(SPEC, name="m"))
        inspected(api, "m", facts_of("llava"))
        question = planned(api, "False", "GpuUnknown")
        assert "the GPU is" in question["message"]
        assert "spec.runtime.gpu.product" in question["message"]
        assert engine_jobs(api) == {}

        with gpu_node(api.cluster) as name:
            verdict = planned(api, "True", "PlanComplete")
            assert f"on 1 x {H100}: " in verdict["message"]
            status = get(api, "mmm", "m")["status"]["plan"]
            assert status["gpu"]["product"] == H100
            assert 0 < status["kvCacheFreeGpuMemoryFraction"] < 1
            eventually(lambda: set(engine_jobs(api)) == {H100})

            label = ["label", "node", name, "--overwrite"]
            kubectl(api.cluster, *label, "nvidia.com/gpu.memory=16384")
            verdict = planned(api, "False", "DoesNotFit")
            assert "it would fit with spec.engine." in verdict["message"]
            status = get(api, "mmm", "m")["status"]["plan"]
            assert (status["fits"], status["shortBytes"] > 0) == (False, True)
            assert status["suggestions"]

            product = f"nvidia.com/gpu.product={L40S}"
            kubectl(api.cluster, *label, product, "nvidia.com/gpu.memory=46068")
            verdict = planned(api, "True", "PlanComplete")
            assert f"on 1 x {L40S}: " in verdict["message"]
            eventually(lambda: set(engine_jobs(api)) == {L40S})

        assert conditions(api)["Planned"]["status"] == "True"
