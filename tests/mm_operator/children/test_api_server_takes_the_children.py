"""A real API server accepts every child as it is, in a namespace that enforces `restricted`."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from mm_devcluster.cluster import ClusterInfo
from support.clusters import kubectl, namespace
from support.keda_definitions import install_keda_definitions
from support.model_namespace import Api
from support.scripts import ROOT

pytestmark = pytest.mark.cluster

RECORDED = sorted((ROOT / "tests/mm_operator/children/golden").glob("*.yaml"))
OBJECTS = [
    pytest.param(one, id=f"{path.stem}-{one['kind']}-{one['metadata']['name']}")
    for path in RECORDED
    for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]
PODS = [
    pytest.param(parameter.values[0], id=parameter.id)
    for parameter in OBJECTS
    if "template" in parameter.values[0].get("spec", {})
]


@pytest.fixture(scope="module")
def api(control_plane: ClusterInfo) -> Iterator[Api]:
    """Return a namespace that enforces Pod Security `restricted`; it goes with what it holds."""
    install_keda_definitions(control_plane)
    with namespace(control_plane, "children") as name:
        level = "pod-security.kubernetes.io/enforce=restricted"
        kubectl(control_plane, "label", "namespace", name, level)
        yield Api(control_plane, name)


def tried(api: Api, manifest: dict[str, Any]) -> str:
    """Return what the API server says to a server-side apply that is not kept."""
    moved = {**manifest, "metadata": {**manifest["metadata"], "namespace": api.namespace}}
    return api.kubectl(
        "apply",
        "--server-side",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
        stdin=yaml.safe_dump(moved),
        check=False,
    )


@pytest.mark.parametrize("manifest", OBJECTS)
def test_object_is_accepted(api: Api, manifest: dict[str, Any]) -> None:
    """No unknown field, no wrong value, no warning about Pod Security."""
    said = tried(api, manifest)
    assert ("serverside-applied" in said, "arning" in said) == (True, False), said


@pytest.mark.parametrize("manifest", PODS)
def test_pod_passes_pod_security(api: Api, manifest: dict[str, Any]) -> None:
    """A pod of the template is admitted where `restricted` is enforced."""
    template = manifest["spec"]["template"]
    spec = {**template["spec"]}
    for absent in ("serviceAccountName", "priorityClassName", "runtimeClassName"):
        spec.pop(absent, None)  # named by the user; they do not exist here
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod", "labels": template["metadata"]["labels"]},
        "spec": spec,
    }
    api.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    said = tried(api, pod)
    assert "serverside-applied" in said, said


def test_other_pods_are_refused(api: Api) -> None:
    """The namespace really enforces: a pod without our security context does not pass."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod"},
        "spec": {"containers": [{"name": "a", "image": "b"}]},
    }
    assert "violates PodSecurity" in tried(api, pod)
