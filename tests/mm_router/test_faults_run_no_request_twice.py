"""Replicas die or drain at every stage: an answer, an error event or a 503, and never two runs."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from mm_api.rendezvous import order
from mm_edge.drain import Phase
from mm_router.catalog import Model
from mm_router.ejection import FIRST_SECONDS, Failure
from mm_router.reading import affinity_of
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from support.cases import cases
from support.eventually import eventually_async
from support.gateways import MODEL, Running, serve, toy_gateway
from support.routers import RunningRouter, address_of, kill, route
from support.scripted_engine import ScriptedEngine

TOY = Model("blue", MODEL)


@dataclass
class SilentEngine(ScriptedEngine):
    """Takes requests and gives no first token until its gate opens."""

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        if self.gate is not None:
            self.requests.append(request)
            await self.gate.wait()
        async for piece in super().generate(request):
            yield piece


@dataclass(frozen=True)
class Setup:
    """A router and two replicas, in the order in which `BODY` prefers them."""

    router: RunningRouter
    first: Running
    second: Running
    engines: tuple[ScriptedEngine, ScriptedEngine]

    def post(self, client: httpx.AsyncClient, **parameters: Any) -> Awaitable[httpx.Response]:
        body = BODY | parameters
        return client.post(f"{self.router.url}/v1/chat/completions", json=body, timeout=60)

    def count(self, name: str, **labels: str) -> float:
        return self.router.count(name, model="blue/toy", **labels)


BODY: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}

Engines = Callable[[], ScriptedEngine]


@asynccontextmanager
async def setup(
    folder: Path, make: Engines = ScriptedEngine, **changes: Any
) -> AsyncIterator[Setup]:
    async with AsyncExitStack() as stack:
        engines = {}
        running = {}
        for name in "ab":
            engine = make()
            gateway = await stack.enter_async_context(
                serve(toy_gateway(folder / name, engine, **changes))
            )
            engines[address_of(gateway)], running[address_of(gateway)] = engine, gateway
        router = await stack.enter_async_context(route({TOY: list(running)}))
        router.router.fleet._clock = lambda: 0.0  # no ejection ends by itself
        affinity = affinity_of(BODY)
        assert affinity is not None
        first, second = order(affinity, running)
        yield Setup(router, running[first], running[second], (engines[first], engines[second]))


def events_of(text: str) -> list[str]:
    return [part.removeprefix("data: ") for part in text.split("\n\n") if part.startswith("data: ")]


async def test_a_replica_that_is_gone_costs_no_request(tmp_path: Path) -> None:
    """Its port is closed: the next replica answers, and later requests do not try it."""
    async with setup(tmp_path) as one, httpx.AsyncClient(timeout=60) as client:
        kill(one.first)
        for _ in range(3):
            assert (await one.post(client)).status_code == 200

        assert len(one.engines[1].requests) == 3
        assert one.count("mm_router_retries_total", reason="unreachable") == 1
        assert one.count("mm_router_ejections_total", reason="unreachable") == 1
        assert one.count("mm_router_replicas_ejected") == 1


async def test_without_any_replica_left_the_client_comes_back(tmp_path: Path) -> None:
    async with setup(tmp_path) as one, httpx.AsyncClient(timeout=60) as client:
        kill(one.first)
        kill(one.second)
        answer = await one.post(client)

        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["error"]["code"] == "no_replica"
        assert one.count("mm_router_retries_total", reason="unreachable") == 1


@pytest.mark.parametrize("stream", [False, True], ids=["complete", "stream"])
async def test_a_replica_killed_before_the_first_byte(tmp_path: Path, *, stream: bool) -> None:
    """The request may have run: it is not sent again, and the client knows."""
    async with (
        setup(tmp_path, lambda: SilentEngine(gate=asyncio.Event())) as one,
        httpx.AsyncClient(timeout=60) as client,
    ):
        request = asyncio.ensure_future(one.post(client, stream=stream))
        await eventually_async(lambda: len(one.engines[0].requests) == 1)
        kill(one.first)
        answer = await request

        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "replica_lost")
        assert one.engines[1].requests == []
        assert one.count("mm_router_ejections_total", reason="broken") == 1
        assert one.count("mm_router_outstanding_requests") == 0


async def test_a_replica_killed_in_a_stream(tmp_path: Path) -> None:
    """What came stays; an error is the last event, and the stream does not look complete."""
    async with (
        setup(tmp_path, lambda: ScriptedEngine(gate=asyncio.Event())) as one,
        httpx.AsyncClient(timeout=60) as client,
        client.stream(
            "POST", f"{one.router.url}/v1/chat/completions", json=BODY | {"stream": True}
        ) as answer,
    ):
        text = ""
        async for part in answer.aiter_text():
            text += part
            if '"content":"a"' in part:
                kill(one.first)

        *before, last = events_of(text)
        assert json.loads(last)["error"]["code"] == "replica_lost"
        assert "[DONE]" not in before
        assert one.engines[1].requests == []
        await eventually_async(lambda: one.count("mm_router_requests_total", code="503") == 1)


@cases(
    "sent",
    {
        "in-an-event": b'data: {"choices": []}\n\ndata: {"cho',
        "between-events": b'data: {"choices": []}\n\n',
    },
)
async def test_no_part_of_an_event_is_passed_on(sent: bytes) -> None:
    """A client parses each event as JSON: a cut one would hide the error behind it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked"
        writer.write(head + b"\r\n\r\n%x\r\n%s\r\n" % (len(sent), sent))
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, route({TOY: [address]}) as router, httpx.AsyncClient(timeout=60) as client:
        got = await client.post(f"{router.url}/v1/chat/completions", json=BODY)

    first, last = events_of(got.text)
    assert json.loads(first) == {"choices": []}
    assert json.loads(last)["error"]["code"] == "replica_lost"


async def test_a_replica_that_drains_costs_no_request(tmp_path: Path) -> None:
    async with setup(tmp_path) as one, httpx.AsyncClient(timeout=60) as client:
        one.first.gateway.drain.phase = Phase.REFUSING
        answer = await one.post(client)

        assert answer.status_code == 200
        assert len(one.engines[1].requests) == 1
        assert one.count("mm_router_retries_total", reason="draining") == 1
        assert one.count("mm_router_replicas_ejected") == 0


async def test_errors_of_a_request_are_the_answer(tmp_path: Path) -> None:
    """An engine that fails has run the request: no other one gets it."""
    engines = iter([ScriptedEngine(error=RuntimeError("boom"), pieces=()) for _ in range(2)])
    async with (
        setup(tmp_path, lambda: next(engines)) as one,
        httpx.AsyncClient(timeout=60) as client,
    ):
        answer = await one.post(client)

        assert answer.status_code == 500
        assert [len(engine.requests) for engine in one.engines] == [1, 0]


async def test_a_replica_that_comes_back_gets_its_keys_again(tmp_path: Path) -> None:
    async with setup(tmp_path) as one, httpx.AsyncClient(timeout=60) as client:
        listening = address_of(one.first)
        key = TOY.key
        one.router.router.fleet.failed(key, listening, Failure.UNREACHABLE)
        assert (await one.post(client)).status_code == 200
        assert [len(engine.requests) for engine in one.engines] == [0, 1]

        one.router.router.fleet._clock = lambda: FIRST_SECONDS
        await eventually_async(lambda: _answered_by_first(one, client))
        assert one.count("mm_router_replicas_ejected") == 0


async def test_a_router_that_drains_ends_its_streams_first(tmp_path: Path) -> None:
    async with (
        setup(tmp_path, lambda: ScriptedEngine(gate=asyncio.Event())) as one,
        httpx.AsyncClient(timeout=60) as client,
        client.stream(
            "POST", f"{one.router.url}/v1/chat/completions", json=BODY | {"stream": True}
        ) as answer,
    ):
        parts = answer.aiter_text()
        text = await anext(parts)
        drain = one.router.router.drain
        leaving = asyncio.create_task(drain.leave(lame_duck_seconds=0, timeout_seconds=60))
        await eventually_async(lambda: drain.phase is Phase.REFUSING)
        async with httpx.AsyncClient(timeout=60) as other:
            refused = await one.post(other)
        for engine in one.engines:
            assert engine.gate is not None
            engine.gate.set()
        text += "".join([part async for part in parts])

        assert (refused.status_code, refused.headers["connection"]) == (503, "close")
        assert refused.json()["error"]["code"] == "draining"
        assert events_of(text)[-1] == "[DONE]"
        assert await leaving


async def _answered_by_first(one: Setup, client: httpx.AsyncClient) -> bool:
    await one.post(client)
    return bool(one.engines[0].requests)
