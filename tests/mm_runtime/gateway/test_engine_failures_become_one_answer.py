"""What fails behind the gateway is seen once: as a status, or as an event of a running stream."""

import asyncio
import json
import socket
from functools import partial
from pathlib import Path

import httpx
import pytest
from openai import APIError, AsyncOpenAI

from mm_runtime.gateway.errors import EngineFailedError, EngineTimeoutError, EngineUnavailableError
from mm_runtime.gateway.http import reply
from support.cases import cases
from support.eventually import eventually_async
from support.gateways import MODEL, Running, client_of, serve, toy_gateway
from support.scripted_engine import ScriptedEngine

QUESTION = {"model": MODEL, "messages": [{"role": "user", "content": "what is it ?"}]}
UNAVAILABLE = EngineUnavailableError(
    "gone", retry_after_seconds=1, reason="engine_unavailable", code="engine_unavailable"
)


@cases(
    "error status",
    {
        "failed": (EngineFailedError("failed"), 500),
        "timed-out": (EngineTimeoutError("late"), 504),
        "unavailable": (UNAVAILABLE, 503),
        "a-defect": (RuntimeError("secret detail"), 500),
    },
)
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_before_the_first_token_it_is_a_status(
    tmp_path: Path, error: Exception, status: int, *, stream: bool
) -> None:
    """Nothing was sent yet, so the client sees a real status, streaming or not."""
    engine = ScriptedEngine(pieces=(), error=error)
    async with client_of(toy_gateway(tmp_path, engine)) as client:
        body = {**QUESTION, "stream": stream}
        response = await client.post("/v1/chat/completions", json=body)
        assert status == response.status_code
        assert "error" in response.json()
        assert "secret" not in response.text


async def test_after_the_first_token_it_is_an_event_and_the_end(tmp_path: Path) -> None:
    engine = ScriptedEngine(error=EngineFailedError("The model failed.", code="engine_error"))
    async with serve(toy_gateway(tmp_path, engine)) as running:
        async with httpx.AsyncClient(base_url=running.url, timeout=60) as client:
            response = await client.post("/v1/chat/completions", json={**QUESTION, "stream": True})
        assert response.status_code == 200
        events = response.text.strip().split("\n\n")
        last = json.loads(events[-1].removeprefix("data: "))
        assert last["error"]["code"] == "engine_error"
        assert "[DONE]" not in response.text
        async with AsyncOpenAI(
            base_url=f"{running.url}/v1", api_key="none", max_retries=0, timeout=60
        ) as client:
            stream = await client.chat.completions.create(**QUESTION, stream=True)
            with pytest.raises(APIError, match="The model failed"):
                _ = [chunk async for chunk in stream]


async def test_an_answer_that_takes_too_long_is_cut(tmp_path: Path) -> None:
    """The request's time-out ends a stream that has begun, and frees the slot."""
    engine = ScriptedEngine(gate=asyncio.Event())
    gateway = toy_gateway(tmp_path, engine, request_timeout_seconds=1)
    async with (
        serve(gateway) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):
        response = await client.post("/v1/chat/completions", json={**QUESTION, "stream": True})
        assert "not finished within 1 seconds" in response.text
        plain = await client.post("/v1/chat/completions", json=QUESTION)
        assert plain.status_code == 504
    assert (engine.running, engine.cancelled) == (0, len(engine.requests))


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_a_client_that_leaves_cancels_at_once(tmp_path: Path, *, stream: bool) -> None:
    engine = ScriptedEngine(gate=asyncio.Event())
    body = json.dumps({**QUESTION, "stream": stream}).encode()
    async with serve(toy_gateway(tmp_path, engine)) as running:
        _, writer = await asyncio.open_connection("127.0.0.1", running.port)
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await eventually_async(lambda: engine.running == 1)
        writer.close()
        await writer.wait_closed()
        await eventually_async(lambda: engine.running == 0)
        assert engine.cancelled == 1
        await eventually_async(partial(_is_counted, running))


async def test_a_client_that_stops_reading_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection stays open and no one reads: the slot is free before the answer's end."""
    monkeypatch.setattr(reply, "_STALLED_SECONDS", 1.0)
    engine = ScriptedEngine(pieces=("x" * 2**18,) * 63)  # 16 MB: more than any socket's buffers
    body = json.dumps({**QUESTION, "stream": True, "max_tokens": 64}).encode()
    async with serve(toy_gateway(tmp_path, engine)) as running:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(0)  # as asyncio wants it
        with client:
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", running.port))
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}"
            await asyncio.get_running_loop().sock_sendall(client, f"{head}\r\n\r\n".encode() + body)
            await eventually_async(lambda: engine.cancelled == 1)
            await eventually_async(lambda: running.gateway.admission.load.running == 0)
        await eventually_async(partial(_is_counted, running))


async def _is_counted(running: Running) -> bool:
    """Say whether one client is counted as gone: a moment after its slot is free."""
    async with httpx.AsyncClient(base_url=running.url, timeout=60) as client:
        metrics = (await client.get("/metrics")).text
    return f'mm_requests_total{{code="499",model="{MODEL}"}} 1.0' in metrics
