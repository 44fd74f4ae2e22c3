"""Watch events that are there already are taken in groups: others have turns in between."""

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import Any

import orjson
import pytest
from aiohttp import web

from mm_operator.cluster.client import Client
from mm_operator.cluster.reflector import Reflector
from mm_operator.cluster.resources import CONFIG
from support.answering_api import client_of

EVENTS = 2000
MOST_BETWEEN_TURNS = 100
"""Events; a hundred of them take some 40 ms."""


class Counted:
    """A sink that counts what it takes."""

    def __init__(self) -> None:
        self.taken = 0

    def put(self, kind: str, item: dict[str, Any]) -> None:
        del kind, item
        self.taken += 1

    def keep(
        self, kind: str, uids: Collection[str], *, namespace: str | None, version: int
    ) -> None:
        """Take the end of a list."""

    def remove(self, kind: str, item: dict[str, Any]) -> None:
        """Take a deleted object."""


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    metadata = {"name": "a", "namespace": "demo", "uid": "a", "resourceVersion": "8"}
    event = orjson.dumps({"type": "MODIFIED", "object": {"metadata": metadata}}) + b"\n"

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response({"items": [], "metadata": {"resourceVersion": "7"}})
        stream = web.StreamResponse()
        await stream.prepare(request)
        await stream.write(event * EVENTS)
        await asyncio.sleep(60)
        return stream

    async with client_of(answer, "/api/v1/namespaces/demo/configmaps") as client:
        yield client


async def test_others_have_turns(client: Client) -> None:
    sink = Counted()
    reflector = Reflector(client, CONFIG, namespace="demo", selector="", sink=sink)
    watch = asyncio.create_task(reflector.run())
    most = before = 0
    async with asyncio.timeout(60):
        while sink.taken < EVENTS:
            await asyncio.sleep(0)
            most, before = max(most, sink.taken - before), sink.taken
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)

    assert most <= MOST_BETWEEN_TURNS
