"""A real Helm installs, upgrades, rolls back and removes the chart on a real API server."""

import json
from collections.abc import Iterator
from typing import Any

import helm_python as helm
import pytest

from mm_devcluster.cluster import ClusterInfo
from support.chart import CHART, RELEASE
from support.clusters import kubectl, kubectl_json, namespace, read
from support.eventually import eventually
from support.model_documents import document

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

NAMESPACE = "chart-tests"


@pytest.fixture
def config(control_plane: ClusterInfo) -> Iterator[helm.Config]:
    """Return Helm at work in a namespace that enforces `restricted`; it goes at the end."""
    with (
        namespace(control_plane, NAMESPACE),
        helm.Config(namespace=NAMESPACE, kubeconfig_path=str(control_plane.kubeconfig)) as config,
    ):
        yield config
        config.uninstall(RELEASE, ignore_not_found=True, timeout=120)


def _deployment(cluster: ClusterInfo) -> dict[str, Any]:
    return read(cluster, "-n", NAMESPACE, "deployment", RELEASE)


def test_release_is_installed_upgraded_rolled_back_and_removed(
    control_plane: ClusterInfo, config: helm.Config
) -> None:
    config.install(CHART, RELEASE, {}, timeout=120)
    assert _deployment(control_plane)["spec"]["replicas"] == 2

    config.upgrade(CHART, RELEASE, {"operator": {"replicas": 3}}, timeout=120)
    assert _deployment(control_plane)["spec"]["replicas"] == 3

    config.rollback(RELEASE, version=1, timeout=120)
    assert _deployment(control_plane)["spec"]["replicas"] == 2

    model = json.dumps(document(name="survivor"))
    kubectl(control_plane, "-n", NAMESPACE, "apply", "-f", "-", stdin=model)
    config.uninstall(RELEASE, timeout=120)
    kinds = (
        "deployment,lease,networkpolicy,service,serviceaccount,role,rolebinding,poddisruptionbudget"
    )
    selector = f"app.kubernetes.io/instance={RELEASE}"
    left = read(control_plane, "-n", NAMESPACE, kinds, "-l", selector)
    cluster_wide = kubectl_json(
        control_plane,
        "get",
        "clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding",
        "-l",
        selector,
    )

    assert left["items"] + cluster_wide["items"] == []
    assert kubectl(control_plane, "-n", NAMESPACE, "get", "mmm", "-o", "name") == (
        "multimodalmodel.serving.multimodal.dev/survivor\n"
    )


def test_pods_are_admitted_where_restricted_is_enforced(
    control_plane: ClusterInfo, config: helm.Config
) -> None:
    """The ReplicaSet makes both pods: Pod Security admission refuses neither."""
    config.install(CHART, RELEASE, {}, timeout=120)
    pods = eventually(
        lambda: (
            found
            if len(found := read(control_plane, "-n", NAMESPACE, "pods")["items"]) == 2
            else None
        )
    )

    assert pods is not None, kubectl(control_plane, "-n", NAMESPACE, "get", "events")
    assert {pod["spec"]["serviceAccountName"] for pod in pods} == {RELEASE}


def _flags(cluster: ClusterInfo, name: str) -> list[str]:
    (container,) = _deployment(cluster)["spec"]["template"]["spec"]["containers"]
    start = f"--{name}="
    return [one.removeprefix(start) for one in container["args"] if one.startswith(start)]


def _roles(cluster: ClusterInfo, name: str) -> list[str]:
    selector = f"app.kubernetes.io/instance={RELEASE}"
    found = read(cluster, "-n", name, "role,rolebinding", "-l", selector)["items"]
    return sorted(one["kind"] for one in found)


@pytest.mark.slow
def test_a_missing_namespace_is_left_out_until_it_is_there(
    control_plane: ClusterInfo, config: helm.Config
) -> None:
    """The others are served, notes and operator name it, and the next upgrade adds it."""
    late = "chart-late"
    values = {"watchNamespaces": [NAMESPACE, late], "router": {"enabled": True}}
    release = config.install(CHART, RELEASE, values, timeout=120)

    assert f"WARNING: of watchNamespaces there is no {late}:" in str(release)
    assert _flags(control_plane, "namespace") == [NAMESPACE]
    assert _flags(control_plane, "missing-namespace") == [late]
    with namespace(control_plane, late):
        config.upgrade(CHART, RELEASE, values, timeout=120)
        assert _flags(control_plane, "namespace") == [NAMESPACE, late]
        assert _flags(control_plane, "missing-namespace") == []
        # Of the operator and of the router.
        assert _roles(control_plane, late) == ["Role", "Role", "RoleBinding", "RoleBinding"]


@pytest.mark.slow
def test_without_any_namespace_nothing_is_made(
    control_plane: ClusterInfo, config: helm.Config
) -> None:
    with pytest.raises(helm.HelmError, match=r"none of them exists \(chart-nowhere, chart-gone\)"):
        config.install(
            CHART, RELEASE, {"watchNamespaces": ["chart-nowhere", "chart-gone"]}, timeout=60
        )

    deployments = kubectl(control_plane, "-n", NAMESPACE, "get", "deployments", "-o", "name")
    assert deployments == ""


@pytest.mark.slow
def test_a_lease_that_was_left_behind_hinders_no_installation(
    control_plane: ClusterInfo, config: helm.Config
) -> None:
    """A former version left its Lease: the release is installed, and the Lease is not its own."""
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": RELEASE}}
    kubectl(control_plane, "-n", NAMESPACE, "create", "-f", "-", stdin=json.dumps(lease))

    config.install(CHART, RELEASE, {}, timeout=120)

    assert _deployment(control_plane)["metadata"]["name"] == RELEASE


ALLOWED = {
    ("patch", "multimodalmodels/status", "default"): "yes",
    ("update", "multimodalmodels", "default"): "no",
    ("create", "jobs.batch", "default"): "yes",
    ("get", "secrets", "default"): "no",
    ("list", "secrets", "default"): "no",
    ("create", "pods", "default"): "no",
    ("create", "leases", "default"): "yes",
    ("delete", "leases", "default"): "no",
    ("list", "leases", "default"): "no",
    ("create", "leases", NAMESPACE): "yes",
    ("delete", "namespaces", "default"): "no",
}


def test_account_may_do_what_it_needs(control_plane: ClusterInfo, config: helm.Config) -> None:
    """The API server itself says what the operator's account may do, and where."""
    config.install(CHART, RELEASE, {}, timeout=120)

    assert {
        (verb, resource, where): _can_i(control_plane, verb, resource, where)
        for verb, resource, where in ALLOWED
    } == ALLOWED


def _can_i(cluster: ClusterInfo, verb: str, resource: str, where: str) -> str:
    name, _, subresource = resource.partition("/")
    account = f"--as=system:serviceaccount:{NAMESPACE}:{RELEASE}"
    options = [f"--subresource={subresource}"] if subresource else []
    # "no" is exit code 1 with nothing on standard error, or a warning there.
    answer = kubectl(
        cluster, "-n", where, "auth", "can-i", verb, name, account, *options, check=False
    )
    return "yes" if answer.startswith("yes") else "no"
