"""Triton alone, or the gateway alone, is killed in streams: clients of the router know of it."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import httpx
import pytest

from mm_router.catalog import Model
from support.eventually import eventually_async
from support.real_gateway import RealGateway, run_pair
from support.routers import RunningRouter, route
from support.tiny_llava import BuiltEngine

pytestmark = [pytest.mark.triton, pytest.mark.slow, pytest.mark.timeout(600)]

STREAMS = 6


class Outcome(StrEnum):
    """What a client got."""

    ANSWER = "answer"
    EVENT = "error event"
    REFUSED = "503"


async def streamed(
    client: httpx.AsyncClient, model: str, number: int, *, begun: Callable[[], None], code: str
) -> Outcome:
    """Read a stream to its end; anything but an answer, an error event or a 503 fails the test."""
    messages = [{"role": "user", "content": f"chat {number}"}]
    body = {"model": model, "messages": messages, "ignore_eos": True, "stream": True}
    events: list[str] = []
    async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        if answer.status_code != httpx.codes.OK:
            assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE, await answer.aread()
            assert answer.headers["retry-after"]
            return Outcome.REFUSED
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                events.append(line.removeprefix("data: "))
                if len(events) > 1:
                    begun()
    if events[-1] == "[DONE]":
        return Outcome.ANSWER
    assert json.loads(events[-1])["error"]["code"] == code, events[-1]
    assert "[DONE]" not in events
    return Outcome.EVENT


async def killed_in_streams(
    router: RunningRouter, model: str, process: Callable[[], int], code: str
) -> Counter[Outcome]:

    def kill() -> None:
        if not killed.is_set():
            os.kill(process(), signal.SIGKILL)
            killed.set()

    killed = asyncio.Event()
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=router.url, timeout=120, limits=limits) as client:
        tasks = [streamed(client, model, n, begun=kill, code=code) for n in range(STREAMS)]
        return Counter(await asyncio.gather(*tasks))


def triton_of(pair: RealGateway) -> int:
    (server,) = Path(f"/proc/{pair.server.pid}/task/{pair.server.pid}/children").read_text().split()
    return int(server)


async def test_each_client_of_the_router_gets_a_word(
    tiny_engine: BuiltEngine, tmp_path: Path
) -> None:
    """Streams that had begun end with an error event; no request is sent a second time."""
    with run_pair(tiny_engine, tmp_path) as pair:
        model = Model("blue", pair.model)
        async with (
            route({model: [pair.url.removeprefix("http://")]}) as router,
            httpx.AsyncClient(base_url=router.url, timeout=120) as client,
        ):

            def sent() -> float:
                return sum(
                    router.count("mm_router_placements_total", model=f"blue/{pair.model}", by=by)
                    for by in ("affinity", "spill", "load")
                )

            outcomes = await killed_in_streams(
                router, pair.model, lambda: triton_of(pair), "engine_unavailable"
            )
            assert outcomes[Outcome.EVENT] > 0
            assert sent() == STREAMS

            async def answers() -> bool:
                body = {"model": pair.model, "messages": [{"role": "user", "content": "hello"}]}
                again = await client.post("/v1/chat/completions", json=body)
                return again.status_code == httpx.codes.OK

            await eventually_async(answers, seconds=120, pause_seconds=0.2)
            before = sent()
            outcomes = await killed_in_streams(
                router, pair.model, lambda: pair.gateway.pid, "replica_lost"
            )
            assert outcomes[Outcome.EVENT] > 0
            assert sent() == before + STREAMS
            assert not await answers()
            assert pair.server.poll() is None
