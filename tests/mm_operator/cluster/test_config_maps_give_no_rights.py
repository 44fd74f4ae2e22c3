"""What a tenant writes into the operator's ConfigMaps never becomes a pod, on a real API server."""

import json
from typing import Any

import pytest

from support.absent_kubelet import get, inspected, make_ready, wait_for_pod
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api

pytestmark = pytest.mark.cluster

OTHER = {"engine": {"maxBatchSize": 4}}
"""A spec with another engine: the former revision is held until that one is built."""

EVIL: dict[str, Any] = {
    "metadata": {"labels": {"app": "anything"}},
    "spec": {
        "serviceAccountName": "builder",
        "hostPID": True,
        "containers": [
            {"name": "shell", "image": "example.org/shell", "securityContext": {"privileged": True}}
        ],
        "volumes": [{"name": "root", "hostPath": {"path": "/"}}],
    },
}
EVIL_TEXT = json.dumps(EVIL)


def config_maps(api: Api) -> list[dict[str, Any]]:
    mark = "app.kubernetes.io/managed-by=multimodal-operator"
    found: list[dict[str, Any]] = api.read("configmaps", "-l", mark)["items"]
    return found


def write(api: Api, name: str, data: dict[str, str]) -> None:
    api.kubectl("patch", "configmap", name, "--type=merge", "-p", json.dumps({"data": data}))


def test_a_held_revision_is_not_read_from_a_config_map(watched: Api) -> None:
    """Pod templates in every ConfigMap change neither a held Deployment nor its scaling."""
    watched.apply(document(name="llava"))
    make_ready(watched, "llava")
    before = get(watched, "deployment", "llava")["spec"]["template"]
    watched.apply(document(OTHER, name="llava"))
    watched.reaches("llava", "EngineBuilt", "False")
    for config in config_maps(watched):
        write(watched, config["metadata"]["name"], {"pod.json": EVIL_TEXT, "encoder.json": "{}"})

    watched.apply(document({**OTHER, "replicas": 2}, name="llava"))

    eventually(lambda: get(watched, "deployment", "llava")["spec"]["replicas"] == 2)
    assert get(watched, "deployment", "llava")["spec"]["template"] == before


def test_a_build_job_knows_its_plan(watched: Api) -> None:
    """A plan with another command under the same fingerprint is written over by the operator."""
    watched.apply(document(name="llava"))
    inspected(watched, "llava")
    pod = wait_for_pod(watched, "app.kubernetes.io/component=build")
    arguments = pod["spec"]["containers"][0]["args"]
    (record,) = [one for one in config_maps(watched) if "plan.json" in one["data"]]
    forged = json.loads(record["data"]["plan.json"])
    forged["engine"]["dtype"] = "float64"

    write(watched, record["metadata"]["name"], {"plan.json": json.dumps(forged)})

    def repaired() -> bool:
        return bool(get(watched, "configmap", record["metadata"]["name"])["data"] == record["data"])

    eventually(repaired)
    assert "--plan-sha256" in arguments
