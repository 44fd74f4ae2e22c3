"""The node of a running build is deleted: with the next node, everything continues by itself."""

from collections.abc import Iterator
from typing import Any

import pytest

from mm_devcluster.demo import settings
from support.builds import SLOW, build_only, build_pods, first_build, pods_ever, running_build
from support.clusters import apply, kubectl, read
from support.eventually import eventually
from support.installed import Installed, Space

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

CRAWLING = {part: {**amounts, "cpu": "80m"} for part, amounts in SLOW.items()}
"""A build that is not done before its node is given up: with 300m it was."""

LOST_SECONDS = 180
"""The pod garbage collector gives a node that is gone 40 s, looks every 20, and then has to act."""


@pytest.fixture(name="node")
def node_that_comes_back(installed: Installed) -> Iterator[dict[str, Any]]:
    """Report the one node; afterwards it is registered, and what runs for all runs again."""
    node: dict[str, Any] = read(installed.cluster, "nodes")["items"][0]
    yield node
    register(installed, node)
    for name, where in ((settings.RELEASE, settings.SYSTEM_NAMESPACE), ("coredns", "kube-system")):
        rollout = ("rollout", "status", f"deployment/{name}", "-n", where, "--timeout=50s")
        kubectl(installed.cluster, *rollout)


def register(installed: Installed, node: dict[str, Any]) -> None:
    apply(
        installed.cluster,
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {name: node["metadata"][name] for name in ("name", "labels")},
            "spec": {name: node["spec"][name] for name in ("podCIDR", "podCIDRs")},
        },
    )


def test_the_build_is_taken_up_again(
    alone: Space, installed: Installed, node: dict[str, Any]
) -> None:
    """The pod counts as lost, not as failed; its successor finishes, in the same attempt."""
    alone.apply(build_only(alone, "stranded", "good", build={"resources": CRAWLING}))
    job = first_build(alone, "stranded")
    pod = running_build(alone, job)["metadata"]["name"]

    kubectl(installed.cluster, "delete", "node", node["metadata"]["name"], "--wait=false")

    def others() -> list[str]:
        return [one["metadata"]["name"] for one in build_pods(alone, job)]

    eventually(lambda: set(others()) - {pod}, seconds=LOST_SECONDS, pause_seconds=1, showing=others)
    condition = alone.condition("stranded", "EngineBuilt")
    register(installed, node)
    built = alone.wait("stranded", "EngineBuilt", lambda one: one.holds, timeout=300)

    assert condition.status == "False"
    assert built.reason == "BuildSucceeded"
    assert len(pods_ever(alone, job)) == 2
    assert alone.read("stranded")["status"]["build"]["attempts"] == 1
