"""kopf alone feeds the cache of models: a resync reads names, and forgets what kopf missed."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mm_operator.cluster.cache import Cache
from mm_operator.cluster.cache_sync import CacheSync
from mm_operator.cluster.client import Client, connect
from mm_operator.cluster.models import ModelCache
from mm_operator.cluster.namespaces import ServedNamespaces
from mm_operator.handlers import watch_models
from support.eventually import eventually_async
from support.model_documents import document
from support.model_namespace import Api

pytestmark = pytest.mark.cluster

NAMES = ("first", "second", "third")
RESYNC_SECONDS = 0.2


class CountedModels(ModelCache):
    """Counts how often each version of a model is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: Counter[tuple[str, str]] = Counter()

    def put(self, item: dict[str, Any], *, own: bool = False) -> None:
        metadata = item["metadata"]
        self.taken[metadata["name"], metadata["resourceVersion"]] += 1
        super().put(item, own=own)


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def closed(client: Client) -> None:
    """Close the client; requests that were cancelled end their TLS connections after that."""
    await client.close()
    sockets = asyncio.get_running_loop()._selector.get_map()  # type: ignore[attr-defined]
    await eventually_async(lambda: len(sockets) == 1)  # the loop's own


def synced(
    api: Api, client: Client, models: ModelCache, after_resync: Callable[[], None]
) -> CacheSync:
    return CacheSync(
        client,
        models,
        Cache(),
        None,
        ServedNamespaces(client, "operators/of-the-test"),
        namespaces=[api.namespace],
        resync_seconds=RESYNC_SECONDS,
        after_resync=after_resync,
    )


async def test_each_version_of_a_model_is_read_once(api: Api) -> None:
    for name in NAMES:
        api.apply(document(name=name))
    connection = await connect(str(api.cluster.kubeconfig), None)
    client, models, resyncs = Client(connection), CountedModels(), Counter[str]()
    cache_sync = synced(api, client, models, lambda: resyncs.update(["seen"]))
    try:
        async with running(cache_sync.run()):
            await asyncio.wait_for(cache_sync.defined(), 60)
            async with running(watch_models(models, connection, [api.namespace])):
                await asyncio.wait_for(cache_sync.synced(), 60)
                assert len(models) == len(NAMES)
                await eventually_async(lambda: resyncs["seen"] >= 3)
                assert cache_sync.problem() == ""

            api.kubectl("delete", "mmm", NAMES[0])
            await eventually_async(lambda: len(models) == len(NAMES) - 1)
    finally:
        await closed(client)

    assert {name for name, _ in models.taken} == set(NAMES)
    assert set(models.taken.values()) == {1}


async def test_without_kopf_the_caches_are_not_complete(api: Api) -> None:
    """Names are no models: a replica that kopf reports nothing does not lead."""
    api.apply(document(name="only"))
    client, models = Client(await connect(str(api.cluster.kubeconfig), None)), ModelCache()
    cache_sync = synced(api, client, models, lambda: None)
    try:
        async with running(cache_sync.run()):
            await eventually_async(lambda: "kopf has not listed all 1" in cache_sync.problem())
    finally:
        await closed(client)
    assert len(models) == 0
