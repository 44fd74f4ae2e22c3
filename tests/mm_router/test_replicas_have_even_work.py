"""Work is weighed by tokens: short requests go around long ones, replicas have as much to do."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from mm_router.catalog import Model
from mm_router.placement import FREE
from support.eventually import eventually_async
from support.gateways import MODEL, serve, toy_gateway
from support.routers import address_of, route
from support.scripted_engine import ScriptedEngine
from support.simulated_replicas import by_requests, by_tokens, simulate

TOY = Model("blue", MODEL)
SECONDS = 60

WORD = "word" * 75
LONG = "word" * (FREE - 96)
"""One token of the toy's; by its length almost as many as are a replica's load. The toy takes no
longer text."""


def test_replicas_have_more_even_work_than_by_requests() -> None:
    """Of short and long requests in one run; nine of ten that met their first replica still do."""
    tokens = simulate(by_tokens, seed=1, requests=2000)
    requests = simulate(by_requests, seed=1, requests=2000)

    assert tokens.spread_seconds < 0.9 * requests.spread_seconds
    assert tokens.busiest_seconds < 0.95 * requests.busiest_seconds
    assert tokens.affinity > 0.85 * requests.affinity


def body(prompt: str, **parameters: Any) -> dict[str, Any]:
    """Return a request with the key that all have here: their first characters are the same."""
    return {"model": MODEL, "prompt": prompt, "max_tokens": 8, **parameters}


def _run(engines: list[ScriptedEngine], count: int) -> bool:
    return sum(one.running for one in engines) == count


async def test_short_requests_go_around_a_long_one(tmp_path: Path) -> None:
    """The first replica of their key has a long prompt: the other one answers, all of them."""
    engines = [ScriptedEngine(gate=asyncio.Event()) for _ in range(2)]
    async with AsyncExitStack() as stack:
        addresses = []
        for number, engine in enumerate(engines):
            gateway = toy_gateway(tmp_path / str(number), engine, max_concurrency=16)
            addresses.append(address_of(await stack.enter_async_context(serve(gateway))))
        router = await stack.enter_async_context(route({TOY: addresses}))
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=router.url, timeout=SECONDS)
        )
        async with asyncio.TaskGroup() as sending:
            tasks = []
            sent = [body(LONG, max_tokens=100), *[body(WORD)] * 4]
            for count, one in enumerate(sent, 1):
                request = client.post("/v1/completions", json=one)
                tasks.append(sending.create_task(request))
                await eventually_async(partial(_run, engines, count))
                if count == 1:
                    engines.sort(key=lambda one: one.running)
            counts = [one.running for one in engines]
            outstanding = router.count("mm_router_outstanding_tokens", model="blue/toy")
            for engine in engines:
                assert engine.gate is not None
                engine.gate.set()

        assert [task.result().status_code for task in tasks] == [200] * 5
        assert counts == [4, 1]
        assert outstanding > FREE
        assert router.count("mm_router_outstanding_tokens", model="blue/toy") == 0


async def test_a_prompt_is_done_with_the_first_token(tmp_path: Path) -> None:
    """Of a stream that has begun only the answer is left."""
    engine = ScriptedEngine(gate=asyncio.Event())
    assert engine.gate is not None
    async with (
        serve(toy_gateway(tmp_path, engine)) as running,
        route({TOY: [address_of(running)]}) as router,
        httpx.AsyncClient(base_url=router.url, timeout=SECONDS) as client,
        client.stream("POST", "/v1/completions", json=body(LONG, stream=True)) as answer,
    ):
        events = answer.aiter_lines()
        await anext(events)
        assert router.count("mm_router_outstanding_tokens", model="blue/toy") == 8
        engine.gate.set()
        assert [line async for line in events][-2] == "data: [DONE]"
        await eventually_async(
            lambda: router.count("mm_router_outstanding_requests", model="blue/toy") == 0
        )
        assert router.count("mm_router_outstanding_tokens", model="blue/toy") == 0
