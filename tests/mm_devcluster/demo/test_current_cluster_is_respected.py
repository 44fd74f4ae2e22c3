"""On someone else's cluster the demo touches only what it made."""

from collections.abc import Iterator

import pytest

from mm_devcluster.cluster import ClusterInfo
from mm_devcluster.demo import installation, settings
from mm_devcluster.demo.target import CURRENT, Target, current_target
from mm_devcluster.demo.teardown import remove_demo
from mm_devcluster.errors import DevClusterError
from support.clusters import apply, kubectl, read

pytestmark = pytest.mark.cluster

THEIRS = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": settings.DEMO_NAMESPACE}}


@pytest.fixture(name="target")
def current_context(
    control_plane: ClusterInfo, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Target]:
    """Make the control plane the current kubectl context; leave no namespace of the demo in it."""
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    yield current_target(lambda _: None)
    for name in (settings.DEMO_NAMESPACE, settings.SYSTEM_NAMESPACE):
        kubectl(control_plane, "delete", "namespace", name, "--ignore-not-found")


def test_a_namespace_of_another_user_is_refused(control_plane: ClusterInfo, target: Target) -> None:
    """The demo neither uses nor later deletes a namespace that happens to have its name."""
    apply(control_plane, THEIRS)
    with pytest.raises(DevClusterError, match="exists and is not the demo's"):
        installation.make_namespace(target, settings.DEMO_NAMESPACE)
    assert remove_demo(CURRENT, purge=False) == "the current cluster holds nothing of the demo"
    there = read(control_plane, "namespace", settings.DEMO_NAMESPACE)
    assert there["status"]["phase"] == "Active"


@pytest.mark.slow
def test_what_the_demo_made_is_removed(control_plane: ClusterInfo, target: Target) -> None:
    for name in (settings.DEMO_NAMESPACE, settings.SYSTEM_NAMESPACE):
        installation.make_namespace(target, name)
        installation.make_namespace(target, name)  # a second run finds its own
    reported = remove_demo(CURRENT, purge=False)
    left = kubectl(control_plane, "get", "namespaces", "-o", "name")
    assert reported == "removed from the current cluster: demo, multimodal-system"
    assert [name for name in ("demo", "multimodal-system") if name in left] == []
    assert not target.kubeconfig.exists()


def test_no_context_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    with pytest.raises(DevClusterError, match="leave CLUSTER=current out"):
        current_target(lambda _: None)
