"""Two namespaces whose claims lead to one volume, on a real API server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mm_api import labels
from mm_devcluster.cluster import ClusterInfo
from support.absent_kubelet import built, get, inspected
from support.clusters import apply, kubectl, namespace
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator
from support.volumes import bound

pytestmark = pytest.mark.cluster

STORE = {"build": {"store": {"persistentVolumeClaim": {"claimName": "engines", "path": "shared"}}}}


@pytest.fixture
def pair(defined: ClusterInfo) -> Iterator[tuple[Api, Api]]:
    """Two namespaces, each with a claim bound to a volume of its own; both volumes are one disk."""
    run = uuid4().hex[:8]
    names = [f"share-{side}-{run}" for side in ("a", "b")]
    with namespace(defined, names[0]), namespace(defined, names[1]):
        for name in names:
            apply(defined, *bound(name, name, "engines", path=f"/var/lib/nowhere/{run}"))
        yield Api(defined, names[0]), Api(defined, names[1])
    for name in names:
        kubectl(defined, "delete", "pv", name, "--wait=false")


def build_of(api: Api, name: str) -> dict[str, Any]:
    found: dict[str, Any] = get(api, "mmm", name).get("status", {}).get("build", {})
    return found


def build_jobs(api: Api) -> list[str]:
    mark = f"{labels.APP_COMPONENT}={labels.Component.BUILD}"
    found = api.read("jobs", "-l", mark)["items"]
    return [one["metadata"]["name"] for one in found]


def begin(api: Api, name: str) -> None:
    api.apply(document(STORE, name=name))
    inspected(api, name)


def test_another_namespaces_build_changes_nothing(pair: tuple[Api, Api], tmp_path: Path) -> None:
    """A store is what a spec says it is: another namespace's build and records change nothing."""
    first, second = pair
    with running_operator(first.cluster, tmp_path, first.namespace, second.namespace):
        begin(first, "one")
        eventually(lambda: build_jobs(first))
        (engine,) = [
            one["metadata"]["name"]
            for one in first.read("configmaps")["items"]
            if one["metadata"]["name"].startswith("engine-")
        ]
        forged = json.dumps({"data": {"built-at": "not a time", "plan.json": "{}"}})
        first.kubectl("patch", "configmap", engine, "--type=merge", "-p", forged)

        begin(second, "two")
        built(second)

        eventually(lambda: build_of(second, "two").get("phase") == "Succeeded")
