"""Fills the caches and keeps them in sync: a reflector per kind and namespace; kopf watches models.

A replica that does not lead keeps them too, so that it can take over at once. Before it does, they
are compared with what the API server holds by then: watches may lag, and another one led until now.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mm_api import labels
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.client import Client
from mm_operator.cluster.models import ModelCache
from mm_operator.cluster.namespaces import LEASE_NAME, ServedNamespaces
from mm_operator.cluster.nodes import NodeCache
from mm_operator.cluster.reflector import Reflector
from mm_operator.cluster.resources import (
    DEVICE_CHILDREN,
    GROUP_CHILDREN,
    KEDA_CHILDREN,
    LEASE,
    MODEL,
    NODE,
    WATCHED,
    Resource,
)
from mm_operator.errors import ClusterError

_FORBIDDEN, _NOT_FOUND = 403, 404
UNREADABLE = frozenset({_FORBIDDEN, _NOT_FOUND})
"""Statuses of a kind that is not defined or may not be read: nothing is known of it anyway."""


@dataclass(frozen=True, slots=True)
class Listing:
    """All objects of a kind and namespace, by their metadata."""

    uids: frozenset[str]
    version: int
    missed: tuple[tuple[str, str], ...]
    """Namespace and name of those that the cache does not hold in this version or a later one."""


async def compare(
    client: Client,
    resource: Resource,
    namespace: str | None,
    selector: str,
    holds: Callable[[Mapping[str, Any]], bool],
) -> Listing:
    """List a kind's metadata and compare it with a cache; ClusterError: no answer, or a refusal.

    A list without a version is read from the store itself: names and versions suffice to compare.
    `holds`: whether the cache holds an object of this metadata, or a later version of it.
    """
    uids: set[str] = set()
    missed: list[tuple[str, str]] = []
    version = "0"
    pages = client.list(resource, namespace, selector=selector, metadata_only=True)
    async for items, version in pages:  # noqa: B007  # the last page's version is what is wanted
        for metadata in (item["metadata"] for item in items):
            uids.add(metadata["uid"])
            if not holds(metadata):
                missed.append((metadata["namespace"], metadata["name"]))
    return Listing(frozenset(uids), int(version), tuple(missed))


_LOG = logging.getLogger(__name__)

_SELECTOR = f"{labels.APP_MANAGED_BY}={labels.MANAGED_BY_VALUE}"
_RETRY_SECONDS = 2.0
_DEVICES_SINCE = 34
"""Minor version of Kubernetes that has resource.k8s.io/v1."""
_FEED_SECONDS = 0.05
_FEEDS = 40
"""kopf lists 100 models in a tenth of a second. After two seconds the names are listed again: a
model that was deleted in between never comes."""


def most_watches(namespaces: int) -> int:
    """Return the streams of the caches at the most; 0 namespaces: one stream a kind, for all."""
    kinds = len((*WATCHED, LEASE, *KEDA_CHILDREN, *GROUP_CHILDREN, *DEVICE_CHILDREN))
    return kinds * max(namespaces, 1) + len((NODE,))


class CacheSync:
    """Fills and checks the caches.

    Models come from kopf alone; their metadata is listed at the start, to know when the cache is
    complete, and at each resync, because kopf reports no deletion that happened while its watch was
    down. Reflectors fill the others. `nodes`: None: they are not read. `namespaces`: empty: all.
    `keda`, `groups`: their kinds may not be installed, which is no reason to wait. `minor`: of
    Kubernetes; 0: unknown.
    """

    def __init__(
        self,
        client: Client,
        models: ModelCache,
        cache: Cache,
        nodes: NodeCache | None,
        served: ServedNamespaces,
        *,
        namespaces: Sequence[str],
        keda: bool = False,
        groups: bool = False,
        minor: int = 0,
        resync_seconds: float,
        after_resync: Callable[[], None],
    ) -> None:
        self._client = client
        self._models = models
        self._cache = cache
        self._namespaces: Sequence[str | None] = namespaces or (None,)
        self._resync_seconds = resync_seconds
        self._after_resync = after_resync
        self._defined = asyncio.Event()
        self._listed = asyncio.Event()
        self._problem = "models are not listed yet"
        keda_kinds = KEDA_CHILDREN if keda else ()
        group_kinds = GROUP_CHILDREN if groups else ()
        device_kinds = DEVICE_CHILDREN if minor >= _DEVICES_SINCE else ()
        self._children = (*WATCHED, *keda_kinds, *group_kinds, *device_kinds)
        self._reflectors = [
            *self._watching(WATCHED),
            *(
                Reflector(
                    client,
                    LEASE,
                    namespace=namespace,
                    selector="",
                    fields=f"metadata.name={LEASE_NAME}",
                    sink=served,
                )
                for namespace in self._namespaces
            ),
        ]
        self._nodes = [
            Reflector(
                client,
                NODE,
                namespace=None,
                selector=labels.GPU_PRODUCT,
                sink=sink,
                metadata_only=True,
            )
            for sink in (nodes,)
            if sink is not None
        ]
        self._keda = self._watching(keda_kinds)
        self._groups = self._watching(group_kinds)
        self._devices = self._watching(device_kinds)

    def _watching(self, resources: Sequence[Resource]) -> list[Reflector]:
        return [
            Reflector(
                self._client, resource, namespace=namespace, selector=_SELECTOR, sink=self._cache
            )
            for resource in resources
            for namespace in self._namespaces
        ]

    async def synced(self) -> None:
        await self._listed.wait()
        for reflector in self._reflectors:
            await reflector.synced.wait()
        for optional in (*self._nodes, *self._keda, *self._groups, *self._devices):
            await optional.answered.wait()

    async def caught_up(self) -> None:
        """Wait until the caches are complete and hold what the API server holds at this call.

        Models and children: Leases of namespaces and nodes are compared where they are used.
        """
        await self.synced()
        while True:
            try:
                missed = await self._catch_models_up()
                for resource in self._children:
                    for namespace in self._namespaces:
                        missed += await self._catch_up(resource, namespace)
            except ClusterError as error:
                _LOG.warning("the caches cannot be compared before leading: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if missed:
                _LOG.info("watches lagged: %d objects were read before leading", missed)
            return

    async def _catch_models_up(self) -> int:
        """Read the models that kopf has not brought; return how many."""
        read = [
            item
            for listing in await self._list_models()
            for place, name in listing.missed
            if (item := await self._client.get(MODEL, place, name))
        ]
        for item in read:
            self._models.put(item)
        return len(read)

    async def _list_models(self) -> list[Listing]:
        """Forget the models that a list of metadata does not have, and return the lists."""
        listings = [
            await compare(self._client, MODEL, namespace, "", self._models.is_current)
            for namespace in self._namespaces
        ]
        uids = {uid for listing in listings for uid in listing.uids}
        # The oldest of them: what kopf reported after that may be missing in an earlier list.
        self._models.keep(uids, min(listing.version for listing in listings))
        return listings

    async def _catch_up(self, resource: Resource, namespace: str | None) -> int:
        """Read the objects of a kind that its watch has not brought; return how many."""
        kind, missed = resource.kind, 0
        try:
            found = await compare(
                self._client, resource, namespace, _SELECTOR, partial(self._cache.holds, kind)
            )
        except ClusterError as error:
            if error.status in UNREADABLE:
                return 0
            raise
        for place, name in found.missed:
            fields = f"metadata.name={name}"
            pages = self._client.list(resource, place, selector=_SELECTOR, fields=fields)
            async for items, _ in pages:
                for item in items:
                    self._cache.put(kind, item)
                    missed += 1
        self._cache.keep(kind, found.uids, namespace=namespace, version=found.version)
        return missed

    async def defined(self) -> None:
        """Wait until models can be listed: the CRD is installed and may be read."""
        await self._defined.wait()

    def problem(self) -> str:
        """Return why the caches cannot be trusted yet, as a sentence; empty when they can.

        A stream that breaks later is no reason to be unready: the cache stays and is repaired.
        """
        if not self._listed.is_set():
            return self._problem
        cold = [r for r in self._reflectors if not r.synced.is_set()]
        return f"{cold[0].name}: {cold[0].problem}" if cold else ""

    def keda_missing(self) -> str:
        """Return why KEDA's objects cannot be read; empty while they can."""
        return _missing(self._keda)

    def groups_missing(self) -> str:
        """Return why LeaderWorkerSets cannot be made; empty while they can."""
        if not self._groups:
            return "the operator is not configured for it"
        missing = _missing(self._groups)
        return f"its objects cannot be read ({missing})" if missing else ""

    def claims_missing(self) -> str:
        """Return why claims for devices cannot be made; empty while they can."""
        if not self._devices:
            return f"the API server is older than Kubernetes 1.{_DEVICES_SINCE}"
        missing = _missing(self._devices)
        return f"resource.k8s.io/v1 cannot be used: {missing}" if missing else ""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            optional = (*self._nodes, *self._keda, *self._groups, *self._devices)
            for reflector in (*self._reflectors, *optional):
                group.create_task(reflector.run(), name=f"watch {reflector.name}")
            group.create_task(self._resync(), name="resync")

    async def _resync(self) -> None:
        while True:
            try:
                uids = {uid for one in await self._list_models() for uid in one.uids}
            except ClusterError as error:
                self._problem = f"{MODEL.plural}: {error}; is the CRD installed?"
                _LOG.warning("models cannot be listed: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            self._defined.set()
            if self._listed.is_set():
                self._after_resync()
            elif not await self._are_fed(uids):
                self._problem = f"{MODEL.plural}: kopf has not listed all {len(uids)} yet"
                continue
            self._listed.set()
            await asyncio.sleep(self._resync_seconds)

    async def _are_fed(self, uids: Collection[str]) -> bool:
        """Return whether kopf brings all of these models in time."""
        for _ in range(_FEEDS):
            if self._models.holds(uids):
                return True
            await asyncio.sleep(_FEED_SECONDS)
        return False


def _missing(reflectors: Sequence[Reflector]) -> str:
    missing = [one for one in reflectors if one.missing or not one.synced.is_set()]
    return missing[0].problem if missing else ""
