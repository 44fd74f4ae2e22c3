"""After thousands of requests, good, bad and abandoned, the gateway holds what it held before."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from itertools import cycle
from pathlib import Path

import httpx
import pytest

from support.images import data_url
from support.real_gateway import RealGateway
from support.tiny_llava import samples

pytestmark = [pytest.mark.triton, pytest.mark.slow, pytest.mark.timeout(3600)]

REQUESTS = int(os.environ.get("MM_LEAK_REQUESTS", "10000")) // 2
CLIENTS = 8
WARM_UP = 200
"""Requests before the first count: pools of connections and threads have their size after these."""

SETTLED_SECONDS = 60

LONG = {"stream": True, "max_tokens": 64, "temperature": 2.0}
"""The model's own answers are over after a few tokens; so hot, it says anything."""

MakeRequest = Callable[[], Awaitable[None]]


def _held(real: RealGateway, page: str) -> Mapping[str, int]:
    """Return open files and threads of the gateway's process, and requests by its own count."""
    process = Path(f"/proc/{real.gateway.pid}")
    gauges = {
        name: int(float(re.search(rf"^{name}\{{.*?\}} (\S+)$", page, re.MULTILINE)[1]))  # type: ignore[index]
        for name in ("mm_requests_running", "mm_requests_waiting")
    }
    return {
        "files": len(list((process / "fd").iterdir())),
        "threads": len(list((process / "task").iterdir())),
        **gauges,
    }


async def _settled(real: RealGateway) -> Mapping[str, int]:
    """Return what is held once no request is inside and two looks are the same."""
    before: Mapping[str, int] = {}
    async with asyncio.timeout(SETTLED_SECONDS):
        while True:
            # Each look has a connection of its own, and is no client that stays.
            async with httpx.AsyncClient(timeout=30) as client:
                page = (await client.get(f"{real.url}/metrics")).text
            held = _held(real, page)
            inside = held["mm_requests_running"] + held["mm_requests_waiting"]
            if held == before and not inside:
                return held
            before = held
            await asyncio.sleep(1)


def _kinds(real: RealGateway, client: httpx.AsyncClient) -> list[MakeRequest]:
    sample = samples()[0]
    seen = data_url(sample.image.read_bytes())

    def body(url: str = "", **changes: object) -> dict[str, object]:
        parts: list[object] = [{"type": "text", "text": sample.question if url else "Hello!"}]
        parts += [{"type": "image_url", "image_url": {"url": url}}] if url else []
        messages = [{"role": "user", "content": parts}]
        return {"model": real.model, "messages": messages, "max_tokens": 4, **changes}

    async def query(status: int, requested: Mapping[str, object]) -> None:
        answer = await client.post("/v1/chat/completions", json=requested)
        assert answer.status_code == status, answer.text

    async def gone() -> None:
        async with client.stream("POST", "/v1/chat/completions", json=body(seen, **LONG)) as answer:
            assert answer.status_code == httpx.codes.OK
            await anext(answer.aiter_lines())

    return [
        lambda: query(200, body()),
        lambda: query(200, body(stream=True)),
        lambda: query(200, body(seen)),
        lambda: query(400, body("data:image/png;base64,AAAA")),
        lambda: query(400, body("http://127.0.0.1:1/private.png")),
        lambda: query(400, body(temperature=-1)),
        lambda: query(404, body(model="another")),
        gone,
    ]


async def _load(real: RealGateway, count: int) -> None:
    """Make so many requests from several clients; every connection is closed after them."""
    async with httpx.AsyncClient(base_url=real.url, timeout=60) as client:
        kinds = cycle(_kinds(real, client))
        left = iter(range(count))

        async def work() -> None:
            for _ in left:
                await next(kinds)()

        async with asyncio.TaskGroup() as clients:
            for _ in range(CLIENTS):
                clients.create_task(work())


async def test_the_gateway_holds_what_it_held(real: RealGateway) -> None:
    """Requests inside and threads are the same; open files too, but for a pool of connections."""
    await _load(real, WARM_UP)
    before = await _settled(real)
    await _load(real, REQUESTS)
    after = await _settled(real)
    assert after["files"] <= before["files"] + CLIENTS
    assert {**before, "files": 0} == {**after, "files": 0}
