"""When a namespace of another installation is free: decided by its leader Lease, with our clock."""

from typing import Any

import pytest

from mm_operator.cluster.namespaces import (
    LEASE_NAME,
    SILENT_SECONDS,
    ServedNamespaces,
)
from mm_operator.cluster.resources import LEASE, Resource
from mm_operator.errors import ClusterError
from support.cases import cases

OURS, THEIRS = "home/ours", "away/theirs"


class Leases:
    """The Leases of an API server, with its optimistic concurrency."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], dict[str, Any]] = {}
        self.forbidden: set[str] = set()
        self.writes = 0

    def set(self, namespace: str, name: str, **body: Any) -> dict[str, Any]:
        self.writes += 1
        metadata = body.pop("metadata", {}) | {"namespace": namespace, "name": name}
        metadata |= {"resourceVersion": str(self.writes), "uid": f"{namespace}/{name}"}
        self.held[namespace, name] = {**body, "metadata": metadata}
        return self.held[namespace, name]

    async def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any] | None:
        if namespace in self.forbidden:
            raise ClusterError(403, resource.kind, name, "forbidden")
        return self.held.get((namespace, name))

    async def create(
        self, resource: Resource, namespace: str, body: dict[str, Any]
    ) -> dict[str, Any]:
        if (namespace, body["metadata"]["name"]) in self.held:
            raise ClusterError(409, resource.kind, LEASE_NAME, "exists")
        name = body["metadata"]["name"]
        return self.set(namespace, name, metadata=body["metadata"], spec=body["spec"])

    async def update(
        self, resource: Resource, namespace: str, name: str, body: dict[str, Any]
    ) -> dict[str, Any]:
        there = self.held.get((namespace, name))
        if there is None:
            raise ClusterError(404, resource.kind, name, "not found")
        if there["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise ClusterError(409, resource.kind, name, "changed")
        return self.set(namespace, name, metadata=body["metadata"], spec=body["spec"])


class Site:
    """One installation, another one's Lease, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.leases = Leases()
        self.reported: list[str] = []
        self.served = ServedNamespaces(
            self.leases,  # type: ignore[arg-type]  # the three requests that are sent
            OURS,
            on_change=self.reported.append,
            clock=lambda: self.now,
        )

    def theirs(self, **marks: str) -> None:
        found = self.leases.set("team", LEASE_NAME, spec={"holderIdentity": THEIRS}, metadata=marks)
        self.served.put(LEASE.kind, found)

    def watched(self) -> None:
        self.served.put(LEASE.kind, self.leases.held["team", LEASE_NAME])


@pytest.fixture
def site() -> Site:
    """The namespace belongs to the other installation, whose leader has just renewed."""
    made = Site()
    made.leases.set("away", "theirs", spec={"holderIdentity": "pod"})
    made.theirs()
    return made


async def test_a_namespace_without_a_lease_is_taken(site: Site) -> None:
    """The first installation with a model there writes one, and does not write it again."""
    assert await site.served.admits("other")
    writes = site.leases.writes
    assert await site.served.admits("other")

    assert site.leases.writes == writes
    assert site.leases.held["other", LEASE_NAME]["spec"]["holderIdentity"] == OURS


async def test_it_is_kept_while_the_leader_renews(site: Site) -> None:
    for _ in range(5):
        assert not await site.served.admits("team")
        site.now += SILENT_SECONDS - 1
        site.leases.set("away", "theirs", spec={"holderIdentity": "pod"})
        site.watched()


async def test_it_is_taken_after_silence(site: Site) -> None:
    assert not await site.served.admits("team")
    site.watched()
    site.now += SILENT_SECONDS

    assert await site.served.admits("team")
    assert site.served.serves("team")
    assert site.served.refused() == 0


async def test_it_is_taken_when_the_leader_lease_is_gone(site: Site) -> None:
    del site.leases.held["away", "theirs"]

    assert await site.served.admits("team")


async def test_it_is_kept_where_nothing_is_known(site: Site) -> None:
    """Without the right to read the leader's Lease nothing is taken, however long it lasts."""
    site.leases.forbidden.add("away")
    for _ in range(3):
        assert not await site.served.admits("team")
        site.now += 10 * SILENT_SECONDS

    assert site.served.refused() == 1


async def test_the_faster_one_has_it(site: Site) -> None:
    del site.leases.held["away", "theirs"]
    site.leases.set("team", LEASE_NAME, spec={"holderIdentity": "third/one"})

    assert not await site.served.admits("team")
    assert not site.served.serves("team")


async def test_of_two_workers_the_slower_one_serves_too(site: Site) -> None:
    """Models of a new namespace come at once: none of them waits for a later look."""
    site.leases.set("other", LEASE_NAME, spec={"holderIdentity": OURS})  # not watched yet

    assert await site.served.admits("other")
    assert site.served.serves("other")


@cases(
    "namespace version kept",
    {
        "list-of-all": (None, 99, False),
        "list-of-the-namespace": ("team", 99, False),
        "list-of-another": ("other", 99, True),
        "older-list": (None, 0, True),
    },
)
async def test_a_lease_that_a_list_does_not_hold_is_gone(
    site: Site, namespace: str | None, version: int, *, kept: bool
) -> None:
    """A deletion that no watch reported: the namespace is free, and its models are looked at."""
    site.reported.clear()
    site.served.keep(LEASE.kind, set(), namespace=namespace, version=version)
    del site.leases.held["team", LEASE_NAME]

    assert site.reported == ([] if kept else ["team"])
    if not kept:
        assert await site.served.admits("team")
