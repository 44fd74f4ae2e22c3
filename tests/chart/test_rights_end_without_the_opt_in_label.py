"""A cluster-wide operator's writes end at namespaces that opted in, on a real API server."""

import json
from collections.abc import Iterator
from typing import Any

import helm_python as helm
import pytest
import yaml

from mm_api import labels
from mm_devcluster.cluster import ClusterInfo
from support.cases import cases
from support.chart import CHART, RELEASE
from support.clusters import apply, kubectl, namespace
from support.definition import install_definition
from support.eventually import eventually
from support.keda_definitions import install_group_definition, install_keda_definitions
from support.scripts import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

HOME, OPEN, CLOSED = "policy-home", "policy-open", "policy-closed"
SYSTEM = "kube-policy"
"""Opted in by its label, which counts nothing for a name that Kubernetes keeps for itself."""
ACCOUNT = f"--as=system:serviceaccount:{HOME}:{RELEASE}"

OURS = {labels.APP_MANAGED_BY: labels.MANAGED_BY_VALUE}
CHILDREN = {
    path.stem: [*yaml.safe_load_all(path.read_text(encoding="utf-8"))]
    for path in sorted((ROOT / "tests/mm_operator/children/golden").glob("[!s]*.yaml"))
}
POD = {
    "automountServiceAccountToken": False,
    "restartPolicy": "Never",
    "containers": [
        {"name": "c", "image": "i", "securityContext": {"allowPrivilegeEscalation": False}}
    ],
}


def workload(kind: str = "Job", marks: dict[str, str] = OURS, **pod: object) -> dict[str, Any]:
    """Return a workload as the operator makes them, with what is laid over its pod."""
    spec: dict[str, Any] = {"template": {"metadata": {"labels": {"a": "b"}}, "spec": POD | pod}}
    if kind == "Deployment":
        spec["selector"] = {"matchLabels": {"a": "b"}}
        spec["template"]["spec"] |= {"restartPolicy": "Always"}
    group = "apps/v1" if kind == "Deployment" else "batch/v1"
    return {
        "apiVersion": group,
        "kind": kind,
        "metadata": {"name": "probe", "labels": marks},
        "spec": spec,
    }


def simple(kind: str, marks: dict[str, str] = OURS, **body: object) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "probe", "labels": marks},
        **body,
    }


SERVICE = {"spec": {"ports": [{"port": 80}]}}
CONTAINER = POD["containers"][0]


@pytest.fixture(scope="module")
def cluster(control_plane: ClusterInfo) -> Iterator[ClusterInfo]:
    """The chart with its defaults; a namespace that opted in, and one that did not."""
    install_definition(control_plane)
    install_keda_definitions(control_plane)
    install_group_definition(control_plane)
    with (
        namespace(control_plane, HOME),
        namespace(control_plane, OPEN),
        namespace(control_plane, CLOSED),
        namespace(control_plane, SYSTEM),
        helm.Config(namespace=HOME, kubeconfig_path=str(control_plane.kubeconfig)) as config,
    ):
        kubectl(control_plane, "label", "namespace", CLOSED, f"{labels.ENABLED}-")
        optional = {"keda": {"enabled": True}, "leaderWorkerSet": {"enabled": True}}
        config.install(CHART, RELEASE, optional, timeout=60)
        try:
            # A policy counts about a second after it was made.
            eventually(lambda: "denied" in _made(control_plane, CLOSED, workload()))
            yield control_plane
        finally:
            config.uninstall(RELEASE, timeout=60)


def _made(cluster: ClusterInfo, where: str, manifest: dict[str, Any]) -> str:
    command = ["-n", where, "create", "--dry-run=server", "-f", "-", ACCOUNT]
    return kubectl(cluster, *command, stdin=json.dumps(manifest), check=False)


def _applied(cluster: ClusterInfo, where: str, manifest: dict[str, Any]) -> str:
    command = ["-n", where, "apply", "--server-side", "--force-conflicts", "--dry-run=server"]
    return kubectl(cluster, *command, "-f", "-", ACCOUNT, stdin=json.dumps(manifest), check=False)


@pytest.mark.parametrize("where", ["kube-system", SYSTEM, HOME, CLOSED])
@cases(
    "manifest",
    {
        "deployment": workload("Deployment"),
        "job": workload(),
        "configmap": simple("ConfigMap"),
        "service": simple("Service", **SERVICE),
    },
)
def test_nothing_is_made_elsewhere(
    cluster: ClusterInfo, where: str, manifest: dict[str, Any]
) -> None:
    said = _made(cluster, where, manifest)

    assert "ValidatingAdmissionPolicy" in said, said
    assert f"label namespace {CLOSED}" in said or where != CLOSED, said


@pytest.mark.parametrize("where", ["kube-system", CLOSED, OPEN])
@pytest.mark.parametrize("kind", ["pod", "service", "configmap", "deployment"])
def test_nothing_of_others_is_deleted_or_changed(
    cluster: ClusterInfo, where: str, kind: str
) -> None:
    """Objects without the operator's label stay as they are, also where models are served."""
    strange = {
        "pod": simple("Pod", {}, spec=POD | {"automountServiceAccountToken": True}),
        "service": simple("Service", {}, **SERVICE),
        "configmap": simple("ConfigMap", {}),
        "deployment": workload("Deployment", {}),
    }[kind]
    if kind == "pod":
        security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        container = {
            **CONTAINER,
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
        }
        strange["spec"] |= {"securityContext": security, "containers": [container]}
    strange["metadata"] |= {"name": f"strange-{kind}", "namespace": where}
    apply(cluster, strange)
    try:
        deleted = kubectl(
            cluster,
            *("-n", where, "delete", kind, f"strange-{kind}", "--dry-run=server", ACCOUNT),
            check=False,
        )
        assert "ValidatingAdmissionPolicy" in deleted, deleted
        if kind != "pod":
            taken = {**strange, "metadata": strange["metadata"] | {"labels": OURS}}
            said = _applied(cluster, where, taken)
            assert "ValidatingAdmissionPolicy" in said, said
    finally:
        kubectl(cluster, "-n", where, "delete", kind, f"strange-{kind}", "--wait=false")


@cases(
    "pod word",
    {
        "token": ({"automountServiceAccountToken": True}, "token"),
        "host-network": ({"hostNetwork": True}, "hostNetwork"),
        "host-pid": ({"hostPID": True}, "hostPID"),
        "host-ipc": ({"hostIPC": True}, "hostIPC"),
        "host-path": ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "volumes"),
        "projected-token": (
            {
                "volumes": [
                    {
                        "name": "v",
                        "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]},
                    }
                ]
            },
            "volumes",
        ),
        "privileged": (
            {"containers": [CONTAINER | {"securityContext": {"privileged": True}}]},
            "privileged",
        ),
        "escalation": ({"initContainers": [{"name": "i", "image": "i"}]}, "allowPrivilege"),
    },
)
@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_pods_get_no_rights_of_their_own(
    cluster: ClusterInfo, kind: str, pod: dict[str, Any], word: str
) -> None:
    """A template that the operator never makes is refused also where models are served."""
    said = _made(cluster, OPEN, workload(kind, **pod))

    assert "ValidatingAdmissionPolicy" in said, said
    assert word in said, said


@cases("marks", {"none": {}, "another": {labels.APP_MANAGED_BY: "x"}})
def test_what_is_made_carries_the_operators_label(
    cluster: ClusterInfo, marks: dict[str, str]
) -> None:
    """Without it an object could never be changed or deleted again by the one that made it."""
    for manifest in (simple("ConfigMap", marks), workload(marks=marks)):
        said = _made(cluster, OPEN, manifest)

        assert "carry the label" in said, said


def test_the_label_of_an_own_object_stays(cluster: ClusterInfo) -> None:
    """Taking it off would hand the object to no one."""
    own = simple("ConfigMap")
    apply(cluster, own | {"metadata": own["metadata"] | {"name": "own-label", "namespace": OPEN}})

    removal = ("label", "configmap", "own-label", f"{labels.APP_MANAGED_BY}-")
    said = kubectl(cluster, "-n", OPEN, *removal, ACCOUNT, check=False)

    assert "carry the label" in said, said


def test_events_are_reported_everywhere(cluster: ClusterInfo) -> None:
    """A model in a namespace that did not opt in says why nothing happens."""
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "probe"},
        "involvedObject": {"kind": labels.KIND, "name": "m", "namespace": CLOSED},
        "type": "Normal",
    }

    said = _made(cluster, CLOSED, event)

    assert "event/probe created" in said, said


@pytest.mark.parametrize("stage", CHILDREN)
def test_what_the_operator_makes_is_accepted(cluster: ClusterInfo, stage: str) -> None:
    """Every recorded child passes, sent as the operator sends it."""
    moved = [{**one, "metadata": {**one["metadata"], "namespace": OPEN}} for one in CHILDREN[stage]]
    said = _applied(cluster, OPEN, {"kind": "List", "apiVersion": "v1", "items": moved})

    assert said.count("serverside-applied") == len(moved), said


@cases(
    "manifest",
    {"configmap": simple("ConfigMap"), "job": workload(), "deployment": workload("Deployment")},
)
def test_what_the_operator_made_it_changes_and_deletes(
    cluster: ClusterInfo, manifest: dict[str, Any]
) -> None:
    """The label that it gives its objects is enough where models are served."""
    kind = manifest["kind"]
    metadata = manifest["metadata"] | {"name": f"own-{kind.lower()}", "namespace": OPEN}
    apply(cluster, manifest | {"metadata": metadata})

    patch = ("--type=merge", "-p", '{"metadata": {"annotations": {"a": "b"}}}')
    where = ("-n", OPEN)
    assert "patched" in kubectl(cluster, *where, "patch", kind, metadata["name"], *patch, ACCOUNT)
    assert "deleted" in kubectl(cluster, *where, "delete", kind, metadata["name"], ACCOUNT)


def test_no_secret_is_read(cluster: ClusterInfo) -> None:
    """Not by name and not as a list, neither in kube-system nor where models are served."""
    for where in ("kube-system", OPEN):
        secret = ["create", "secret", "generic", "probe", "--from-literal=a=b"]
        kubectl(cluster, "-n", where, *secret)
        try:
            for target in (["secret", "probe"], ["secrets"]):
                said = kubectl(cluster, "-n", where, "get", *target, ACCOUNT, check=False)
                assert "orbidden" in said, said
        finally:
            kubectl(cluster, "-n", where, "delete", "secret", "probe")


def test_others_are_not_bound(cluster: ClusterInfo) -> None:
    manifest = json.dumps(simple("ConfigMap", {}))
    command = ["-n", "kube-system", "create", "--dry-run=server", "-f", "-"]

    assert "configmap/probe created" in kubectl(cluster, *command, stdin=manifest)


def test_leases_of_the_own_namespace_are_written(cluster: ClusterInfo) -> None:
    """The election needs no label of the operator's namespace."""
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "engine-probe"},
    }

    assert "created" in _made(cluster, HOME, lease)
    for where in ("kube-system", CLOSED):
        said = _made(cluster, where, lease)
        assert "ValidatingAdmissionPolicy" in said or "orbidden" in said, said
