"""Two namespaces whose claims lead to one volume build an engine once, on a real API server."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mm_api import labels
from mm_devcluster.cluster import ClusterInfo
from mm_operator.cluster.build_leases import BuildLeases
from mm_operator.cluster.client import Client, connect
from mm_operator.cluster.stores import volume_identity
from support.absent_kubelet import built, get, inspected
from support.cases import cases
from support.clusters import apply, kubectl, namespace
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import OperatorProcess, running_operator
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


def leases(api: Api) -> list[str]:
    return [name for name in api.names("leases") if name.startswith("engine-")]


def sharing(pair: tuple[Api, Api], folder: Path) -> AbstractContextManager[OperatorProcess]:
    """Run an operator whose administrator lets both namespaces share builds."""
    first, second = pair
    group = f"--shared-stores={first.namespace},{second.namespace}"
    return running_operator(
        first.cluster, folder, first.namespace, second.namespace, arguments=(group,)
    )


def begin(api: Api, name: str) -> None:
    api.apply(document(STORE, name=name))
    inspected(api, name)


def test_one_namespace_builds_for_both(pair: tuple[Api, Api], tmp_path: Path) -> None:
    """The second model waits, names the first, and then finds the engine by a Job of its own."""
    first, second = pair
    with sharing(pair, tmp_path):
        begin(first, "one")
        eventually(lambda: build_jobs(first))
        begin(second, "two")
        eventually(lambda: build_of(second, "two").get("phase") == "Waiting")
        waiting = build_of(second, "two")
        assert f"{first.namespace}/one builds this engine" in waiting["message"]
        assert len(leases(first)) == 1

        assert build_jobs(second) == []

        built(first)

        built(second, reused=True)
        eventually(lambda: build_of(second, "two").get("phase") == "Succeeded")
        assert build_of(second, "two")["reusedFrom"] == "store"
        assert build_of(second, "two")["fingerprint"] == build_of(first, "one")["fingerprint"]
        eventually(lambda: not leases(first), showing=lambda: leases(first))


def test_without_consent_no_model_waits(pair: tuple[Api, Api], tmp_path: Path) -> None:
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
        assert leases(first) == []


@pytest.mark.slow
def test_who_waits_continues_when_the_builder_leaves(pair: tuple[Api, Api], tmp_path: Path) -> None:
    """A build dies with its last model; the other namespace then builds by itself."""
    first, second = pair
    with sharing(pair, tmp_path):
        begin(first, "one")
        eventually(lambda: build_jobs(first))
        begin(second, "two")
        eventually(lambda: build_of(second, "two").get("phase") == "Waiting")

        first.kubectl("delete", "mmm", "one")

        eventually(lambda: build_jobs(second), seconds=90)
        built(second)
        eventually(lambda: build_of(second, "two").get("phase") == "Succeeded")
        assert "reusedFrom" not in build_of(second, "two")


Take = Callable[[str, timedelta, set[str]], bool]


@pytest.fixture
def take(pair: tuple[Api, Api]) -> Take:
    """Take the Lease of one engine as some holder, with a clock of its own."""
    api, _ = pair

    def taken(holder: str, skew: timedelta, busy: set[str]) -> bool:
        async def query() -> bool:
            client = Client(await connect(str(api.cluster.kubeconfig), None))
            build_leases = BuildLeases(
                client, api.namespace, lambda: datetime.now(UTC) + skew, lambda name: name != "far"
            )
            try:
                return await build_leases.take("0" * 32, holder, 60, busy.__contains__)
            finally:
                await client.close()

        return asyncio.run(query())

    return taken


NOW, AHEAD, BEHIND = timedelta(), timedelta(hours=1), timedelta(hours=-1)


@cases(
    "first skew busy expected",
    {
        "just-taken": ("a/engine", NOW, set(), False),
        "its-own": ("b/engine", NOW, set(), True),
        "holder-builds": ("a/engine", AHEAD, {"a/engine"}, False),
        "holder-builds-clock-behind": ("a/engine", BEHIND, {"a/engine"}, False),
        "holder-builds-no-more": ("a/engine", AHEAD, set(), True),
        "holder-builds-no-more-clock-behind": ("a/engine", BEHIND, set(), True),
        "unseen-holder": ("far/engine", NOW, set(), False),
        "unseen-holder-long-ago": ("far/engine", AHEAD, set(), True),
    },
)
def test_a_lease_counts_as_long_as_its_holder_builds(
    take: Take, *, first: str, skew: timedelta, busy: set[str], expected: bool
) -> None:
    """Who may build is read from the cluster; clocks that differ by an hour change nothing."""
    assert take(first, NOW, set())
    assert take("b/engine", skew, busy) is expected


def test_of_two_at_once_one_builds(pair: tuple[Api, Api]) -> None:
    api, _ = pair

    async def race() -> list[bool]:
        client = Client(await connect(str(api.cluster.kubeconfig), None))
        build_leases = BuildLeases(
            client, api.namespace, lambda: datetime.now(UTC), lambda _name: True
        )
        try:
            takes = (
                build_leases.take("1" * 32, f"{n}/e", 60, lambda _holder: False) for n in range(8)
            )
            return list(await asyncio.gather(*takes))
        finally:
            await client.close()

    assert sum(asyncio.run(race())) == 1


@cases(
    "one other same",
    {
        "claims-do-not-count": ({"nfs": {"server": "s", "path": "/a"}}, {}, True),
        "another-export": (
            {"nfs": {"server": "s", "path": "/a"}},
            {"nfs": {"server": "s", "path": "/b"}},
            False,
        ),
        "one-share-two-handles": (
            {"csi": {"driver": "d", "volumeHandle": "1", "volumeAttributes": {"server": "s"}}},
            {"csi": {"driver": "d", "volumeHandle": "2", "volumeAttributes": {"server": "s"}}},
            True,
        ),
        "two-disks": (
            {"csi": {"driver": "d", "volumeHandle": "1"}},
            {"csi": {"driver": "d", "volumeHandle": "2"}},
            False,
        ),
    },
)
def test_volumes_are_distinguished_by_their_source(
    one: dict[str, Any], other: dict[str, Any], *, same: bool
) -> None:
    """Size, modes and the claim do not say where a volume's bytes are; its source does."""
    first = {**one, "capacity": {"storage": "1Gi"}, "claimRef": {"namespace": "a"}}
    second = {**(other or one), "capacity": {"storage": "2Gi"}, "claimRef": {"namespace": "b"}}
    assert (volume_identity(first) == volume_identity(second)) is same
