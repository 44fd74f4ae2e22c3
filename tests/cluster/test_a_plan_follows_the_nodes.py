"""A model for a GPU on the real API server: asked for, planned from node labels, planned anew."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mm_devcluster.cluster import ClusterInfo
from support.absent_kubelet import get, inspected
from support.clusters import apply, eventually, kubectl
from support.gpu_nodes import H100, node_object
from support.model_configs import facts_of
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator

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
    """Make a node that no kubelet stands behind; it is removed in the end."""
    name = f"gpu-{uuid4().hex[:8]}"
    try:
        apply(cluster, node_object(name, H100, **{"example.org/pool": "test"}))
        yield name
    finally:
        kubectl(cluster, "delete", "node", name, "--ignore-not-found", "--wait=false")


def conditions(api: Api) -> dict[str, Any]:
    """Return the model's conditions by type."""
    found = get(api, "mmm", "m").get("status", {}).get("conditions", [])
    return {one["type"]: one for one in found}


def planned(api: Api, status: str, reason: str) -> dict[str, Any]:
    """Return the condition Planned once it has this status and reason."""
    wanted = (status, reason)

    def reached() -> dict[str, Any]:
        now = conditions(api).get("Planned", {})
        return now if (now.get("status"), now.get("reason")) == wanted else {}

    found = eventually(reached, timeout=30)
    assert found, conditions(api)
    return found


def no_gpu_taken(api: Api) -> bool:
    """Return whether nothing but the inspection ever asked for a place to run."""
    jobs = api.kubectl("get", "jobs", "-o", "name").split()
    return not [job for job in jobs if "engine-" in job] and not api.kubectl(
        "get", "deployments", "-o", "name"
    )


def test_labels_of_nodes_plan_and_plan_anew(api: Api, tmp_path: Path) -> None:
    """No node: a question. A node: a plan, whose build says why it waits. Other labels: another."""
    with running_operator(api.cluster, tmp_path, api.namespace, watch_nodes=True):
        api.apply(document(SPEC, name="m"))
        inspected(api, "m", facts_of("llava"))
        question = planned(api, "False", "GpuUnknown")
        assert "which GPU?" in question["message"]
        assert "spec.runtime.gpu.product" in question["message"]

        with gpu_node(api.cluster) as name:
            verdict = planned(api, "True", "PlanComplete")
            assert f"on 1 x {H100}: " in verdict["message"]
            status = get(api, "mmm", "m")["status"]["plan"]
            assert status["gpu"]["product"] == H100
            assert 0 < status["kvCacheFreeGpuMemoryFraction"] < 1
            assert conditions(api)["EngineBuilt"]["reason"] == "BuildNotAvailable"

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

        assert no_gpu_taken(api)
        assert conditions(api)["Planned"]["status"] == "True"


def test_other_families_are_planned_for_gpus(api: Api, tmp_path: Path) -> None:
    """A family that the Reference engine does not serve is planned where the spec has the GPU."""
    gpu = {"product": H100, "memory": "80Gi", "computeCapability": "9.0"}
    spec = {**SPEC, "model": {"family": "mllama"}, "runtime": {"gpu": gpu}}
    with running_operator(api.cluster, tmp_path, api.namespace):
        api.apply(document(spec, name="m"))
        inspected(api, "m", facts_of("mllama"))
        planned(api, "True", "PlanComplete")
        limits = get(api, "mmm", "m")["status"]["plan"]["limits"]

    assert limits["maxEncoderInputLen"] == 4 * 1601
    assert no_gpu_taken(api)
