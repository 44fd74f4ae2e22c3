"""A replica that begins to lead decides by what the API server holds, however its watches lag."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from mm_api import labels
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.cache_sync import CacheSync
from mm_operator.cluster.client import Client
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache
from mm_operator.cluster.namespaces import ServedNamespaces
from mm_operator.cluster.resources import CONFIG, MODEL
from support.answering_api import client_of
from support.model_documents import document

NAMESPACE = "demo"


def config(name: str, version: int) -> dict[str, Any]:
    marks = {labels.APP_MANAGED_BY: labels.MANAGED_BY_VALUE, labels.MODEL: "llava"}
    metadata = {"name": name, "namespace": NAMESPACE, "uid": name, "labels": marks}
    return {"metadata": {**metadata, "resourceVersion": str(version)}, "data": {}}


def model(version: int) -> dict[str, Any]:
    found = document(name="llava")
    found["metadata"] = {
        **found["metadata"],
        "namespace": NAMESPACE,
        "uid": "llava",
        "generation": version,
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "resourceVersion": str(version),
    }
    return found


class SilentServer:
    """An API server whose watches are open and say nothing: the most that a watch can lag."""

    def __init__(self) -> None:
        self.version = 10
        self.objects: dict[str, list[dict[str, Any]]] = {CONFIG.plural: [], MODEL.plural: []}
        self.fails = 0
        """Lists that are refused."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        _, _, rest = request.path.partition(f"/namespaces/{NAMESPACE}/")
        plural, _, name = rest.partition("/")
        if "watch" in request.query:
            stream = web.StreamResponse()
            await stream.prepare(request)
            await asyncio.sleep(3600)
        if self.fails and plural == CONFIG.plural:
            self.fails -= 1
            raise web.HTTPServiceUnavailable
        named = name or request.query.get("fieldSelector", "").partition("metadata.name=")[2]
        found = self.objects.get(plural, [])
        items = [one for one in found if named in {"", one["metadata"]["name"]}]
        if name:
            return web.json_response(items[0])
        metadata = {"resourceVersion": str(self.version)}
        return web.json_response({"items": items, "metadata": metadata})


@pytest.fixture
async def server() -> AsyncIterator[tuple[SilentServer, Client]]:
    silent = SilentServer()
    async with client_of(silent.answer) as client:
        yield silent, client


async def test_what_watches_have_not_brought_is_read(
    server: tuple[SilentServer, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed, a new and a deleted child, and a changed model; a list that fails is repeated."""
    monkeypatch.setattr("mm_operator.cluster.cache_sync._RETRY_SECONDS", 0.0)
    silent, client = server
    silent.objects[CONFIG.plural] = [config("changed", 5), config("deleted", 6), config("same", 7)]
    silent.objects[MODEL.plural] = [model(8)]
    models, cache = ModelCache(), Cache()
    models.put(model(8))
    sync = CacheSync(
        client,
        models,
        cache,
        None,
        ServedNamespaces(client, "operators/of-the-test"),
        namespaces=[NAMESPACE],
        resync_seconds=3600,
        after_resync=lambda: None,
    )
    running = asyncio.create_task(sync.run())
    async with asyncio.timeout(60):
        await sync.synced()
        # Another replica leads on; nothing of it comes through the watches.
        silent.version = 30
        silent.objects[CONFIG.plural] = [
            config("changed", 20),
            config("new", 21),
            config("same", 7),
        ]
        silent.objects[MODEL.plural] = [model(22)]
        silent.fails = 1
        await sync.caught_up()
    running.cancel()
    await asyncio.wait({running})

    held = {one.name: one.version for one in cache.of_model(Key(NAMESPACE, "llava"))}
    assert held == {"changed": 20, "new": 21, "same": 7}
    key = Key(NAMESPACE, "llava")
    assert (models.find(key).version, models.unobserved()) == (22, [(key, True)])
    models.put({**model(23), "status": {"observedGeneration": 23}})
    assert models.unobserved() == [(key, False)]
