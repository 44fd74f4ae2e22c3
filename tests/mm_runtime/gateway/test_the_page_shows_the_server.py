"""The gateway's metrics page holds the server's part, and never waits for a silent server."""

import asyncio
from http import HTTPStatus

import pytest

from mm_runtime.gateway import server_metrics
from mm_runtime.gateway.server_metrics import ServerMetrics
from support.eventually import eventually_async

PAGE = b'nv_inference_count{model="tiny"} 7\n'


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_metrics, "_SECONDS", 60)


async def test_an_answer_is_shown() -> None:
    assert await answered(HTTPStatus.OK) == PAGE


@pytest.mark.parametrize(
    "status", [HTTPStatus.NOT_FOUND, HTTPStatus.INTERNAL_SERVER_ERROR], ids=lambda one: one.phrase
)
async def test_an_error_is_not_shown(status: HTTPStatus) -> None:
    assert await answered(status) == b""


async def test_an_absent_server_is_an_empty_part() -> None:
    """While the server starts again its port refuses, and the page is the gateway's alone."""
    server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()

    assert await ServerMetrics(f"127.0.0.1:{port}").read() == b""
    assert await ServerMetrics("").read() == b""


async def test_a_server_that_hangs_ends_no_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts and says nothing: the part stays empty, long before a scraper gives up."""
    monkeypatch.setattr(server_metrics, "_SECONDS", 0.2)
    hung: list[asyncio.StreamWriter] = []
    async with await asyncio.start_server(
        lambda _, writer: hung.append(writer), "127.0.0.1", 0
    ) as (server):
        port = server.sockets[0].getsockname()[1]
        async with asyncio.timeout(60):
            assert await ServerMetrics(f"127.0.0.1:{port}").read() == b""
        await eventually_async(lambda: len(hung) == 1)
        for writer in hung:
            writer.close()


async def answered(status: HTTPStatus) -> bytes:

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status} {status.phrase}\r\nContent-Length: {len(PAGE)}\r\n\r\n"
        writer.write(head.encode() + PAGE)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        return await ServerMetrics(f"127.0.0.1:{server.sockets[0].getsockname()[1]}").read()
