"""`mmctl compare` of an engine without its checkpoint, on a real API server.

What it needs of the operator's chart stands in the model's ConfigMap of facts.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from mm_api.v1alpha1.network import CaBundle, NetworkSpec, ProxySpec
from mm_devcluster.cluster import ClusterInfo
from support.absent_kubelet import end_pod, wait_for_pod
from support.clusters import namespace
from support.comparisons import comparing, outcome, set_status
from support.definition import install_definition
from support.model_documents import document
from support.model_namespace import Api
from support.models import SETTINGS, llava_7b_facts
from support.staged import children, inspected

pytestmark = pytest.mark.cluster

OURS = "app.kubernetes.io/managed-by=mmctl"
CHART = NetworkSpec(
    proxy=ProxySpec(https="http://proxy.example:3128", no_proxy=["10.0.0.0/8"]),
    ca_bundle=CaBundle(config_map_name="authorities"),
    hub_endpoint="https://mirror.example",
)
NEEDED = 14_127_000_000 + (1 << 30)


@pytest.fixture(scope="module")
def api(control_plane: ClusterInfo) -> Iterator[Api]:
    """A namespace with a TensorRT model that answers; the operator has settings of a chart."""
    install_definition(control_plane)
    changes: dict[str, Any] = {
        "model": {
            "source": {
                "persistentVolumeClaim": None,
                "huggingFace": {"repo": "a/b", "revision": "main"},
            }
        },
        "engine": {"backend": "TensorRT", "maxBatchSize": 4},
        "build": {"trtllmVersion": "0.20.0"},
        "runtime": {"gpu": {"count": 1, "product": "NVIDIA-L4"}},
    }
    settings = replace(SETTINGS, network=CHART)
    made = children(inspected(changes, built=True, facts=llava_7b_facts(), settings=settings))
    with namespace(control_plane, f"compared-{uuid4().hex[:8]}") as name:
        there = Api(control_plane, name)
        there.apply(document(changes, name="llava"))
        for child in (made["Deployment/server"], made["ConfigMap/inspect"]):
            metadata = {key: child["metadata"][key] for key in ("name", "labels")}
            one = {**child, "metadata": metadata}
            if child["kind"] == "Deployment":
                one["spec"] = {**child["spec"], "replicas": 0}
            there.apply(one)
        set_status(there)
        yield there


def test_the_pod_requests_a_disk_and_has_the_charts_network(api: Api) -> None:
    """Proxy, authorities, mirror and the checkpoint's bytes; the scheduler's words are shown."""
    short = "0/3 nodes are available: 3 Insufficient ephemeral-storage."
    unscheduled = {"type": "PodScheduled", "status": "False", "message": short}
    status = json.dumps({"status": {"conditions": [unscheduled]}})
    with comparing(api) as process:
        pod = wait_for_pod(api, OURS)
        name = pod["metadata"]["name"]
        api.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", status)
        assert process.stderr is not None
        assert any(short in line for line in process.stderr)
        end_pod(api, pod, message="no report", exit_code=3)
        outcome(process)
    (own,) = pod["spec"]["containers"]
    values = {one["name"]: one.get("value") for one in own["env"]}
    assert values["HTTPS_PROXY"] == "http://proxy.example:3128"
    assert values["NO_PROXY"] == "10.0.0.0/8"
    assert values["HF_ENDPOINT"] == "https://mirror.example"
    assert values["SSL_CERT_FILE"]
    bundles = [one["configMap"]["name"] for one in pod["spec"]["volumes"] if "configMap" in one]
    assert "authorities" in bundles
    (volume,) = [one for one in pod["spec"]["volumes"] if one["name"] == "checkpoint"]
    assert volume["emptyDir"] == {"sizeLimit": str(NEEDED)}
    assert own["resources"]["requests"]["ephemeral-storage"] == str(NEEDED)


def write_facts(api: Api, text: str) -> None:
    patch = json.dumps({"data": {"facts.json": text}})
    api.kubectl("patch", "configmap", "llava-facts", "--type=merge", "-p", patch)


def test_a_checkpoint_of_unknown_size_gets_no_pod(api: Api) -> None:
    """The ConfigMap of facts is damaged: the operator writes it again."""
    kept = api.read("configmap", "llava-facts")["data"]["facts.json"]
    write_facts(api, "{")
    try:
        with comparing(api) as process:
            code, _, errors = outcome(process)
    finally:
        write_facts(api, kept)
    assert code == 1
    assert "size of the checkpoint is not known: ConfigMap llava-facts cannot be read" in errors
    assert api.names("pods", "-l", OURS) == []
