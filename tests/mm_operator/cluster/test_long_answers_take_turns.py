"""Long answers that arrive together, as all lists do after a restart, are parsed one in a turn."""

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest
from aiohttp import web

from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import CONFIG
from support.answering_api import client_of

ANSWERS = 12
PAGE = orjson.dumps(
    {"items": [{"data": {"plan": "x" * 300_000}}], "metadata": {"resourceVersion": "7"}}
)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    waiting = asyncio.Barrier(ANSWERS)

    async def answer(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Length": str(len(PAGE))})
        await stream.prepare(request)
        await stream.write(PAGE[:-1])
        await waiting.wait()
        await stream.write(PAGE[-1:])
        return stream

    async with client_of(answer, "/api/v1/namespaces/demo/configmaps") as client:
        yield client


async def test_one_is_parsed_in_a_turn(client: Client) -> None:
    parsed = most = before = 0

    async def listed() -> None:
        nonlocal parsed
        async for items, _ in client.list(CONFIG, "demo"):
            assert len(items) == 1
            parsed += 1

    lists = [asyncio.create_task(listed()) for _ in range(ANSWERS)]
    async with asyncio.timeout(60):
        while parsed < ANSWERS:
            await asyncio.sleep(0)
            most, before = max(most, parsed - before), parsed
    await asyncio.gather(*lists)

    assert most == 1
