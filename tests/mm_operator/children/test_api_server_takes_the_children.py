"""A real API server accepts every child as it is, in a namespace that enforces `restricted`."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from mm_devcluster.cluster import ClusterInfo
from support.clusters import kubectl, namespace
from support.keda_definitions import install_group_definition, install_keda_definitions
from support.model_namespace import Api
from support.scripts import ROOT

pytestmark = pytest.mark.cluster

RECORDED = {
    path.stem: [*yaml.safe_load_all(path.read_text(encoding="utf-8"))]
    for path in sorted((ROOT / "tests/mm_operator/children/golden").glob("*.yaml"))
}


@pytest.fixture(scope="module")
def api(control_plane: ClusterInfo) -> Iterator[Api]:
    """Return a namespace that enforces Pod Security `restricted`; it goes with what it holds."""
    install_keda_definitions(control_plane)
    install_group_definition(control_plane)
    with namespace(control_plane, "children") as name:
        level = "pod-security.kubernetes.io/enforce=restricted"
        kubectl(control_plane, "label", "namespace", name, level)
        yield Api(control_plane, name)


def tried(api: Api, *manifests: dict[str, Any]) -> str:
    moved = [
        {**one, "metadata": {**one["metadata"], "namespace": api.namespace}} for one in manifests
    ]
    return api.kubectl(
        *("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=yaml.safe_dump_all(moved),
        check=False,
    )


@pytest.mark.parametrize("stage", RECORDED)
def test_objects_are_accepted(api: Api, stage: str) -> None:
    said = tried(api, *RECORDED[stage])
    assert (said.count("serverside-applied"), "arning" in said) == (len(RECORDED[stage]), False)


def test_pods_pass_pod_security(api: Api) -> None:
    pods = []
    for manifest in (one for found in RECORDED.values() for one in found):
        described = manifest.get("spec", {})
        described = described.get("leaderWorkerTemplate", described)
        for kind in described.keys() & {"template", "leaderTemplate", "workerTemplate"}:
            spec = {**described[kind]["spec"]}
            for absent in ("serviceAccountName", "priorityClassName", "runtimeClassName"):
                spec.pop(absent, None)  # named by the user; they do not exist here
            labels = described[kind]["metadata"]["labels"]
            metadata = {"name": f"pod-{len(pods)}", "labels": labels}
            pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    api.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    said = tried(api, *pods)
    assert said.count("serverside-applied") == len(pods) > 5, said


def test_other_pods_are_refused(api: Api) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod"},
        "spec": {"containers": [{"name": "a", "image": "b"}]},
    }
    assert "violates PodSecurity" in tried(api, pod)
