"""Requests of a model that starts wait in the router: none is refused or lost."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from mm_edge.drain import Phase
from mm_router import hold
from mm_router.catalog import Model
from mm_router.settings import Settings
from support.cases import cases
from support.eventually import eventually_async
from support.gateways import MODEL, Running, serve, toy_gateway
from support.routers import RunningRouter, address_of, route
from support.scripted_engine import ScriptedEngine

STARTS = Model("blue", MODEL, may_start=True, start_seconds=42.0)
OTHER = Model("blue", "other", may_start=True)
LABEL = "blue/toy"


@asynccontextmanager
async def starting(
    *models: Model, **limits: Any
) -> AsyncIterator[tuple[RunningRouter, httpx.AsyncClient]]:
    settings = replace(Settings(), **limits)
    async with (
        route(dict.fromkeys(models or (STARTS,), ()), settings) as router,
        httpx.AsyncClient(
            base_url=f"{router.url}/v1", timeout=60, limits=httpx.Limits(max_connections=None)
        ) as client,
    ):
        yield router, client


@asynccontextmanager
async def late(
    router: RunningRouter, folder: Path, engine: ScriptedEngine, **plan: Any
) -> AsyncIterator[Running]:
    async with serve(toy_gateway(folder, engine, **plan)) as gateway:
        router.router.fleet.set_replicas(STARTS.key, [address_of(gateway)])
        yield gateway


def send(
    client: httpx.AsyncClient, text: str = "hello", model: str = MODEL, **parameters: Any
) -> asyncio.Task[httpx.Response]:
    messages = [{"role": "user", "content": text}]
    body = {"model": model, "messages": messages, **parameters}
    return asyncio.ensure_future(client.post("/chat/completions", json=body))


async def held(router: RunningRouter, count: int, model: str = LABEL) -> None:
    await eventually_async(lambda: router.count("mm_router_held_requests", model=model) == count)


def refused_requests(router: RunningRouter) -> float:
    return router.count("mm_router_requests_total", model=LABEL, code="400")


async def test_they_are_answered_in_their_order(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    async with starting() as (router, client):
        requests = []
        for number in range(8):
            requests.append(send(client, f"chat {number}", stream=bool(number % 2)))
            await held(router, number + 1)

        async with late(router, tmp_path, engine, max_concurrency=1, max_queue_size=64):
            answers = await asyncio.gather(*requests)

        assert [answer.status_code for answer in answers] == [200] * 8
        sent = [request.prompt for request in engine.requests]
        assert [f"chat {number}" in str(one) for number, one in enumerate(sent)] == [True] * 8
        assert router.count("mm_router_held_requests", model=LABEL) == 0
        assert router.count("mm_router_hold_seconds_count", model=LABEL) == 8


async def test_more_than_the_first_replica_has_places_for_wait_on(tmp_path: Path) -> None:
    async with starting() as (router, client):
        requests = [send(client, f"chat {number}") for number in range(12)]
        await held(router, 12)

        async with late(router, tmp_path, ScriptedEngine(), max_concurrency=1, max_queue_size=1):
            answers = await asyncio.gather(*requests)

    assert [answer.status_code for answer in answers] == [200] * 12


async def test_openais_client_reads_comments_before_its_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold, "_COMMENT_SECONDS", 0.01)
    async with (
        starting() as (router, client),
        openai.AsyncOpenAI(base_url=f"{router.url}/v1", api_key="none", max_retries=0) as official,
    ):
        messages: Any = [{"role": "user", "content": "hello"}]
        # It returns with the head of the answer: before there is a replica.
        chunks = await official.chat.completions.create(model=MODEL, messages=messages, stream=True)
        raw = send(client, stream=True)
        await held(router, 2)
        async with late(router, tmp_path, ScriptedEngine()):
            text = "".join([one.choices[0].delta.content or "" async for one in chunks])
            answer = await raw

    assert text == "a red square"
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = [event for event in answer.text.split("\n\n") if event]
    assert (events[0], events[-1]) == (": keep-alive", "data: [DONE]")


async def test_errors_after_comments_are_the_last_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal of the replica, and of the router when the time is over."""
    monkeypatch.setattr(hold, "_COMMENT_SECONDS", 0.01)
    async with starting(hold_seconds=0.5) as (_, client):
        over = await send(client, stream=True)
    async with starting() as (router, client):
        wrong = send(client, stream=True, temperature=9)
        await held(router, 1)
        await asyncio.sleep(0.1)
        async with late(router, tmp_path, ScriptedEngine()):
            answer = await wrong
        # Their heads said 200; what they came to is counted.
        await eventually_async(lambda: refused_requests(router) == 1)

    def last(answer: httpx.Response) -> Any:
        assert (answer.status_code, answer.text[:1]) == (200, ":")
        return json.loads(answer.text.split("\n\n")[-2].removeprefix("data: "))["error"]

    assert last(over)["code"] == "model_not_ready"
    assert last(answer)["param"] == "temperature"


@cases(
    "model limits count reason seconds",
    {
        "time": (STARTS, {"hold_seconds": 0.2}, 1, "seconds", range(40, 43)),
        "time-no-start-measured": (
            replace(STARTS, start_seconds=0.0),
            {"hold_seconds": 0.2},
            1,
            "seconds",
            range(1, 2),
        ),
        "number": (STARTS, {"hold_requests": 2}, 2, "requests", range(30, 43)),
        "bytes": (STARTS, {"hold_bytes": 150}, 2, "bytes", range(30, 43)),
    },
)
async def test_a_bound_is_answered_with_what_is_left_of_a_start(
    model: Model, limits: dict[str, Any], count: int, reason: str, seconds: range
) -> None:
    async with starting(model, **limits) as (router, client):
        requests = [send(client) for _ in range(count)]
        done, waiting = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
        (answer,) = (one.result() for one in done)

        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) in seconds
        assert answer.json()["error"]["code"] == "model_not_ready"
        assert router.count("mm_router_hold_refused_total", model=LABEL, reason=reason) == 1
        for one in waiting:
            one.cancel()


async def test_one_model_keeps_no_other_out(tmp_path: Path) -> None:
    """A model that does not start holds half of the places at most: another has the next one."""
    async with starting(STARTS, OTHER, hold_requests=8) as (router, client):
        requests = [send(client, model="other") for _ in range(8)]
        await held(router, 4, "blue/other")
        refused, _ = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
        assert {one.result().status_code for one in refused} == {503}
        own = send(client)
        await held(router, 1)
        async with late(router, tmp_path, ScriptedEngine()):
            assert (await own).status_code == 200
        for one in requests:
            one.cancel()


async def test_a_client_that_leaves_frees_its_place() -> None:
    async with starting(hold_requests=2) as (router, client):
        first = send(client)
        await held(router, 1)
        first.cancel()
        await held(router, 0)

        second = send(client)
        await held(router, 1)
        second.cancel()


@cases(
    "models status code",
    {
        "deleted": ((), 404, "model_not_found"),
        "crashes": (
            (replace(STARTS, may_start=False, obstacle="PodsCrashing"),),
            503,
            "model_not_ready",
        ),
    },
)
async def test_a_start_that_will_not_be_ends_the_wait(
    models: tuple[Model, ...], status: int, code: str
) -> None:
    async with starting(hold_requests=6) as (router, client):
        requests = [send(client) for _ in range(3)]
        await held(router, 3)
        router.router.fleet.set_models(models)
        answers = await asyncio.gather(*requests)

    assert [answer.status_code for answer in answers] == [status] * 3
    error = answers[0].json()["error"]
    assert error["code"] == code
    assert all(one.obstacle in error["message"] for one in models)


async def test_requests_that_wait_do_nothing_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []
    async with starting() as (router, client):
        choose = router.router.fleet.choose
        monkeypatch.setattr(
            router.router.fleet,
            "choose",
            lambda *values, **named: (tried.append(values), choose(*values, **named))[1],
        )
        monkeypatch.setattr(hold, "_RETRY_SECONDS", 0.01)
        requests = [send(client) for _ in range(4)]
        await held(router, 4)
        await asyncio.sleep(0.3)
        assert len(tried) == 4
        for one in requests:
            one.cancel()


@cases(
    "model limits",
    {
        "none-will-come": (replace(STARTS, may_start=False), {}),
        "switched-off": (STARTS, {"hold_seconds": 0.0}),
    },
)
async def test_where_nothing_is_to_be_expected_the_answer_comes_at_once(
    model: Model, limits: dict[str, Any]
) -> None:
    async with starting(model, **limits) as (_, client):
        answer = await send(client)

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["error"]["code"] == "model_not_ready"


async def test_a_request_that_the_last_replica_refuses_as_it_drains_waits(tmp_path: Path) -> None:
    """On every way to zero: the router does not know yet that the pod ends."""
    async with starting() as (router, client):
        async with late(router, tmp_path / "1", ScriptedEngine()) as ending:
            ending.gateway.drain.phase = Phase.REFUSING
            request = send(client)
            await held(router, 1)
        router.router.fleet.set_replicas(STARTS.key, ())
        async with late(router, tmp_path / "2", ScriptedEngine()):
            assert (await request).status_code == 200
