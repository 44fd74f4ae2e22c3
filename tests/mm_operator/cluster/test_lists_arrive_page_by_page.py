"""A list of thousands of objects is kept page by page: no one holds all of it at once."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web

from mm_operator.cluster.bounds import LIST_PAGE
from mm_operator.cluster.client import Client
from mm_operator.cluster.reflector import Reflector
from mm_operator.cluster.resources import CONFIG
from support.answering_api import client_of

PAGES = {"": (["a", "b"], "second"), "second": (["c"], "")}
"""Token of a page -> its objects and the token of the next."""


class Received:
    """A sink that notes what it is reported, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def put(self, kind: str, item: dict[str, Any]) -> None:
        self.calls.append(("put", kind, item["metadata"]["name"]))

    def keep(
        self, kind: str, uids: Collection[str], *, namespace: str | None, version: int
    ) -> None:
        self.calls.append(("keep", kind, sorted(uids), namespace, version))

    def remove(self, kind: str, item: dict[str, Any]) -> None:
        self.calls.append(("remove", kind, item["metadata"]["name"]))


@pytest.fixture
async def requested() -> AsyncIterator[tuple[Client, list[str]]]:
    reported: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        if "watch" in request.query:
            await asyncio.sleep(60)
        names, following = PAGES[request.query.get("continue", "")]
        reported.append(request.query["limit"])
        items = [{"metadata": {"name": name, "namespace": "demo", "uid": name}} for name in names]
        metadata = {"resourceVersion": "7", "continue": following}
        return web.json_response({"items": items, "metadata": metadata})

    async with client_of(answer, "/api/v1/namespaces/demo/configmaps") as client:
        yield client, reported


async def test_each_page_is_taken_and_the_end_reports_what_stays(
    requested: tuple[Client, list[str]],
) -> None:
    client, reported = requested
    received = Received()
    reflector = Reflector(client, CONFIG, namespace="demo", selector="", sink=received)
    watch = asyncio.create_task(reflector.run())
    async with asyncio.timeout(60):
        await reflector.synced.wait()
    watch.cancel()
    with suppress(asyncio.CancelledError):
        await watch

    puts = [("put", "ConfigMap", name) for name in "abc"]
    assert received.calls == [*puts, ("keep", "ConfigMap", ["a", "b", "c"], "demo", 7)]
    assert reported == [str(LIST_PAGE[CONFIG.kind])] * 2
