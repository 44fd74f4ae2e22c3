"""Bytes that are no request get OpenAI's error object, and their connection is closed."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from support.gateways import MODEL, Running, serve, toy_gateway
from support.raw_http import say
from support.scripted_engine import ScriptedEngine

POST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with serve(toy_gateway(tmp_path, ScriptedEngine())) as running:
        yield running


BAD = {
    "no-http": (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", 400, "not valid HTTP/1.1"),
    "zeros": (b"\0" * 100 + b"\r\n\r\n", 400, "not valid HTTP/1.1"),
    "no-host": (b"GET /healthz HTTP/1.1\r\n\r\n", 400, "Host"),
    "two-lengths": (
        POST + b"content-length: 1\r\ncontent-length: 2\r\n\r\nxx",
        400,
        "Content-Length",
    ),
    "both-framings": (
        POST + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "Transfer-Encoding together with Content-Length",
    ),
    "both-framings-in-the-other-order": (
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        400,
        "Transfer-Encoding together with Content-Length",
    ),
    "unknown-encoding": (POST + b"transfer-encoding: gzip, chunked\r\n\r\n", 501, "HTTP/1.1"),
    "wrong-chunk": (POST + b"transfer-encoding: chunked\r\n\r\nxyz\r\n", 400, "HTTP/1.1"),
    "space-before-colon": (POST + b"content-length : 4\r\n\r\nabcd", 400, "HTTP/1.1"),
    "large-head": (POST + b"a: " + b"x" * 1_000_000, 431, "at most 32768 bytes and 100 headers"),
    "large-head-at-once": (
        POST + b"a: " + b"x" * 33_000 + b"\r\ncontent-length: 0\r\n\r\n",
        431,
        "at most 32768 bytes and 100 headers",
    ),
    "many-headers-before-a-long-line": (
        POST + b"a: b\r\n" * 100 + b"content-length: 40000\r\n\r\n" + b"x" * 40_000,
        431,
        "at most 32768 bytes and 100 headers",
    ),
    "long-url-at-once": (
        b"GET /" + b"x" * 33_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        414,
        "at most 32768 bytes",
    ),
    "many-headers": (
        POST + b"a: b\r\n" * 100 + b"\r\n",
        431,
        "at most 32768 bytes and 100 headers",
    ),
    "long-url": (b"GET /" + b"x" * 1_000_000, 414, "at most 32768 bytes"),
    "tiny-chunks": (
        POST + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 20_000,
        400,
        "chunks are too small",
    ),
}


@pytest.mark.parametrize(("sent", "status", "part"), BAD.values(), ids=BAD)
async def test_it_is_refused_and_the_connection_ends(
    running: Running, sent: bytes, status: int, part: str
) -> None:
    """One answer with the reason, whatever else was sent; then the end."""
    answer = await say(running.port, sent)
    assert (answer.status, answer.closed) == (status, True)
    assert set(answer.error) == {"message", "type", "param", "code"}
    assert answer.error["type"] == "invalid_request_error"
    assert part in answer.error["message"]
    assert b"connection: close" in answer.content.lower()


async def test_a_request_behind_both_framings_is_not_read(running: Running) -> None:
    """What one party takes for a body and another one for a request is neither."""
    smuggled = b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"
    framed = b"content-length: %d\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" % (
        len(smuggled) + 5
    )
    answer = await say(running.port, POST + framed + smuggled)
    assert answer.content.count(b"HTTP/1.1 ") == 1
    assert answer.status == 400


async def test_another_protocol_is_not_switched_to(running: Running) -> None:
    upgrade = b"connection: upgrade, close\r\nupgrade: websocket\r\n\r\n"
    answer = await say(running.port, b"GET /healthz HTTP/1.1\r\nhost: x\r\n" + upgrade)
    assert (answer.status, answer.closed) == (200, True)


async def test_a_body_of_usual_chunks_is_read(running: Running) -> None:
    question = f'{{"model": "{MODEL}", "messages": [{{"role": "user", "content": "what ?"}}]'

    async def chunks() -> AsyncIterator[bytes]:
        yield question.encode()
        for _ in range(6000):
            yield b" " * 64
        yield b"}"

    async with httpx.AsyncClient(base_url=running.url, timeout=60) as client:
        answer = await client.post("/v1/chat/completions", content=chunks())
    assert answer.status_code == 200, answer.text
