"""A fleet of models: how many namespaces, stores and engines it has, and whether it is Ready.

Every namespace has one store, the operator's own. Models of one engine have one checkpoint.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from harness import kubectl, model

from mm_devcluster.cluster import ClusterInfo
from mm_operator.cluster.client import Client
from mm_operator.cluster.reflector import Reflector
from mm_operator.cluster.resources import DEPLOYMENT, MODEL, Resource

_AT_ONCE = 16
_LOOK_SECONDS = 0.05
"""A hundredth of the shortest goal: the look's own error stays small."""

Name = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True)
class Fleet:
    """Model `i` lives in namespace `i % stores` and has the checkpoint `i % engines`."""

    models: int
    stores: int
    engines: int

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces, one for each store."""
        return tuple(f"team-{number:03}" for number in range(self.stores))

    def names(self) -> Iterator[Name]:
        """Return the namespace and the name of each model."""
        namespaces = self.namespaces()
        for index in range(self.models):
            yield namespaces[index % self.stores], f"model-{index:04}"

    def documents(self) -> Iterator[dict[str, Any]]:
        """Return the models."""
        for index, (namespace, name) in enumerate(self.names()):
            document = model(index % self.engines)
            document["metadata"] = {"name": name, "namespace": namespace}
            yield document

    def make_namespaces(self, cluster: ClusterInfo) -> None:
        """Create the namespaces."""
        for namespace in self.namespaces():
            kubectl(cluster, "create", "namespace", namespace)


async def create(client: Client, fleet: Fleet) -> None:
    """Create the models as fast as the API server takes them."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(document: dict[str, Any]) -> None:
        async with slots:
            await client.create(MODEL, document["metadata"]["namespace"], document)

    await asyncio.gather(*map(one, fleet.documents()))


async def scale(client: Client, name: Name, replicas: int) -> None:
    """Set the replicas of a model, as a user does."""
    patch = {"spec": {"replicas": replicas}}
    await client.merge(MODEL, *name, patch)


class WatchCache:
    """The objects of one kind that a watch last reported, by name."""

    def __init__(self, client: Client, resource: Resource, selector: str = "") -> None:
        self.items: dict[Name, Mapping[str, Any]] = {}
        self.right: set[Name] = set()
        """Judged as objects change: to judge all of them at each look would cost the bench the
        square of the fleet, on the cores that it measures."""
        self.changes = 0
        self._reflector = Reflector(client, resource, namespace=None, selector=selector, sink=self)

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._reflector.run()

    async def synced(self) -> None:
        """Wait for the first list."""
        await self._reflector.synced.wait()

    def keep(
        self, kind: str, uids: Collection[str], *, namespace: str | None, version: int
    ) -> None:
        """End a list: what is not in it is gone."""
        del kind, namespace, version
        self.items = {
            name: item for name, item in self.items.items() if item["metadata"]["uid"] in uids
        }
        self.right &= self.items.keys()

    def put(self, kind: str, item: dict[str, Any]) -> None:
        """Take an added or changed object; of its metadata only what is looked at."""
        del kind
        metadata = item["metadata"]
        metadata.pop("managedFields", None)
        name = metadata["namespace"], metadata["name"]
        self.items[name] = item
        (self.right.add if is_right(item) else self.right.discard)(name)
        self.changes += 1

    def remove(self, kind: str, item: dict[str, Any]) -> None:
        """Forget a deleted object."""
        del kind
        name = item["metadata"]["namespace"], item["metadata"]["name"]
        self.items.pop(name, None)
        self.right.discard(name)
        self.changes += 1


def is_right(item: Mapping[str, Any]) -> bool:
    """Return whether a model is Ready and everything in its status speaks of this generation."""
    status, generation = item.get("status") or {}, item["metadata"]["generation"]
    found = {one["type"]: one for one in status.get("conditions") or ()}
    wanted = {"Ready": "True", "Available": "True", "Planned": "True", "EngineBuilt": "True"}
    wanted |= {"RollingOut": "False", "Degraded": "False"}
    return (
        status.get("observedGeneration") == generation
        and all(found.get(kind, {}).get("status") == value for kind, value in wanted.items())
        and all(one.get("observedGeneration") == generation for one in found.values())
    )


def wrong(cache: WatchCache, fleet: Fleet) -> list[str]:
    """Return the models that are not right, each with its conditions."""
    found = []
    for namespace, name in fleet.names():
        item = cache.items.get((namespace, name))
        if item is None or not is_right(item):
            status = (item or {}).get("status") or {}
            reasons = [
                f"{one['type']}={one['status']}/{one['reason']}"
                for one in status.get("conditions", ())
            ]
            found.append(f"{namespace}/{name}: {' '.join(reasons) or 'no status'}")
    return found


async def until_right(cache: WatchCache, fleet: Fleet, limit_seconds: float) -> None:
    """Wait until every model is right.

    Raises:
        TimeoutError: they were not in time; names the first of them.
    """
    deadline, names = time.monotonic() + limit_seconds, frozenset(fleet.names())
    while not names <= cache.right:
        if time.monotonic() > deadline:
            left = wrong(cache, fleet)
            raise TimeoutError(f"{len(left)} models are not right: {left[:5]}")
        await asyncio.sleep(_LOOK_SECONDS * 4)


@asynccontextmanager
async def deployments(client: Client) -> AsyncIterator[WatchCache]:
    """Watch every server's Deployment; listed before the block, which is measured."""
    cache = WatchCache(client, DEPLOYMENT, "app.kubernetes.io/component=server")
    watch = asyncio.create_task(cache.run())
    try:
        await cache.synced()
        yield cache
    finally:
        watch.cancel()


async def until_applied(
    cache: WatchCache, wanted: Mapping[Name, int], limit_seconds: float
) -> float:
    """Wait until each model's Deployment has its replicas; return the time of that (monotonic)."""
    async with asyncio.timeout(limit_seconds):
        while not _has(cache, wanted):  # noqa: ASYNC110  # looked at less often than it changes
            await asyncio.sleep(_LOOK_SECONDS)
    return time.monotonic()


def _has(cache: WatchCache, wanted: Mapping[Name, int]) -> bool:
    return all(
        (item := cache.items.get(name)) is not None and item["spec"]["replicas"] == replicas
        for name, replicas in wanted.items()
    )
