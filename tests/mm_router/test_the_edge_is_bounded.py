"""What a server on an open port needs: strict HTTP, limits of connections, bodies and time."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from mm_edge.body import ClientGoneError
from mm_edge.drain import Drain
from mm_router.catalog import Model
from mm_router.client_response import ClientResponse
from mm_router.settings import Settings, parse_settings
from mm_router.upstream import passed_on
from support.cases import cases
from support.eventually import eventually_async
from support.gateways import MODEL, serve, toy_gateway
from support.routers import RunningRouter, address_of, route
from support.scripted_engine import ScriptedEngine

TOY = Model("blue", MODEL)
BODY: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}


@asynccontextmanager
async def routed(
    folder: Path, engine: ScriptedEngine, settings: Settings | None = None
) -> AsyncIterator[RunningRouter]:
    async with (
        serve(toy_gateway(folder, engine)) as gateway,
        route({TOY: [address_of(gateway)]}, settings) as router,
    ):
        yield router


async def test_bodies_share_the_memory(tmp_path: Path) -> None:
    """A large body that arrives slowly keeps other large ones out, and no small one."""
    settings = Settings(max_body_bytes=4 << 20, body_memory_bytes=5 << 20)
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (4 << 20)
    async with routed(tmp_path, ScriptedEngine(), settings) as router:
        _, writer = await asyncio.open_connection("127.0.0.1", router.port)
        writer.write(head + b" " * (3 << 20))
        await writer.drain()
        async with httpx.AsyncClient(timeout=60) as client:

            async def refused() -> bool:
                large = b" " * (2 << 20)
                answer = await client.post(f"{router.url}/v1/completions", content=large)
                return answer.status_code == 429

            await eventually_async(refused)
            small = await client.post(f"{router.url}/v1/chat/completions", json=BODY)
        writer.close()

    assert small.status_code == 200


@pytest.mark.parametrize("stream", [False, True], ids=["complete", "stream"])
async def test_requests_have_a_time(tmp_path: Path, *, stream: bool) -> None:
    engine = ScriptedEngine(gate=asyncio.Event())
    async with (
        routed(tmp_path, engine, Settings(request_timeout_seconds=0.5)) as router,
        httpx.AsyncClient(timeout=60) as client,
    ):

        async def is_ended() -> bool:
            answer = await client.post(
                f"{router.url}/v1/chat/completions", json=BODY | {"stream": stream}
            )
            error = json.loads(answer.text.split("data: ")[-1])["error"]
            assert error["code"] == "timeout"
            assert error["message"] == "The request was not finished within 0.5 seconds."
            return bool(engine.requests) and answer.status_code == (200 if stream else 504)

        # A stream that a busy machine does not begin in time ends with the status, too.
        await eventually_async(is_ended)
        await eventually_async(lambda: engine.cancelled == len(engine.requests))


async def test_no_error_is_written_into_an_answer_of_a_stated_length() -> None:
    """The client finds a connection that ended, not an answer with an error behind it."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    response = ClientResponse(send, Drain())
    await response.start(200, {"content-length": "1000"})
    await response.write(b"half", more=True)

    with pytest.raises(ClientGoneError):
        await response.fail(RuntimeError(), receive)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]


async def test_models_that_are_gone_leave_the_metrics(tmp_path: Path) -> None:
    async with (
        routed(tmp_path, ScriptedEngine()) as router,
        httpx.AsyncClient(timeout=60) as client,
    ):
        await client.post(f"{router.url}/v1/chat/completions", json=BODY)
        assert b'model="blue/toy"' in router.router.metrics.render()

        router.router.fleet.set_models([])

        assert b'model="blue/toy"' not in router.router.metrics.render()


def test_headers_of_a_connection_end_there() -> None:
    headers = [
        ("Connection", "keep-alive, X-Mine"),
        ("X-Mine", "1"),
        ("Transfer-Encoding", "chunked"),
        ("Content-Length", "3"),
        ("Host", "router"),
        ("Authorization", "Bearer secret"),
        ("X-Priority", "batch"),
    ]

    assert passed_on(headers) == {"authorization": "Bearer secret", "x-priority": "batch"}


@cases(
    "arguments",
    {
        "bodies-that-never-fit": ["--max-body-bytes=9", "--body-memory-bytes=9"],
        "no-connection": ["--max-connections=0"],
        "negative-time": ["--request-timeout=-1"],
        "no-number": ["--drain-timeout=nan"],
    },
)
def test_settings_that_cannot_work_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_settings(arguments)

    assert ended.value.code == 2
    assert arguments[0].partition("=")[0] in capsys.readouterr().err
