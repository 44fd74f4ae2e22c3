"""A stream that has nothing to send yet sends comments: proxies cut silent connections."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from openai import AsyncOpenAI

from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from mm_runtime.gateway.errors import engine_failed
from support.eventually import eventually_async
from support.gateways import MODEL, Running, serve, toy_gateway
from support.scripted_engine import ScriptedEngine

QUESTION = {"model": MODEL, "messages": [{"role": "user", "content": "what is it ?"}]}
STREAMED = {**QUESTION, "stream": True}
COMMENT = ": keep-alive"


class _SilentEngine(ScriptedEngine):
    """Waits for its gate before the first token, too."""

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        assert self.gate is not None
        await self.gate.wait()
        async for piece in super().generate(request):
            yield piece


@asynccontextmanager
async def _silent(
    folder: Path, gate: asyncio.Event, error: Exception | None = None
) -> AsyncIterator[tuple[Running, httpx.AsyncClient]]:
    engine = _SilentEngine(gate=gate, error=error, pieces=() if error else ("a", " red", " one"))
    async with (
        serve(toy_gateway(folder, engine, keep_alive_seconds=0.02)) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):
        yield running, client


async def test_comments_come_before_the_first_token(tmp_path: Path) -> None:
    """Comments only while nothing else is there to send; then the complete answer as ever."""
    gate = asyncio.Event()
    async with (
        _silent(tmp_path, gate) as (_, client),
        client.stream("POST", "/v1/chat/completions", json=STREAMED) as response,
    ):
        lines: list[str] = []
        async for line in response.aiter_lines():
            lines += [line] if line else []
            if lines.count(COMMENT) == 2:
                gate.set()
    assert response.status_code == 200
    assert lines[:2] == [COMMENT, COMMENT]
    events = [json.loads(one[6:]) for one in lines if one.startswith("data: {")]
    assert "".join(one["choices"][0]["delta"]["content"] for one in events) == "a red one"
    assert lines[-1] == "data: [DONE]"


async def test_the_official_client_does_not_see_them(tmp_path: Path) -> None:
    """It has its stream before the first token, which only a comment can have opened."""
    gate = asyncio.Event()
    async with (
        _silent(tmp_path, gate) as (running, _),
        AsyncOpenAI(
            base_url=f"{running.url}/v1", api_key="none", max_retries=0, timeout=60
        ) as client,
    ):
        stream = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "what is it ?"}], stream=True
        )
        gate.set()
        text = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(text) == "a red one"


async def test_a_failure_after_a_comment_is_an_event(tmp_path: Path) -> None:
    """The status went out with the comment: the error comes as the last event, and is counted."""
    gate = asyncio.Event()
    async with _silent(tmp_path, gate, engine_failed()) as (_, client):
        async with client.stream("POST", "/v1/chat/completions", json=STREAMED) as response:
            lines: list[str] = []
            async for line in response.aiter_lines():
                lines += [line] if line else []
                gate.set()
        page = (await client.get("/metrics")).text
    assert response.status_code == 200
    assert lines[0] == COMMENT
    assert json.loads(lines[-1].removeprefix("data: "))["error"]["code"] == "engine_error"
    assert f'mm_requests_total{{code="500",model="{MODEL}"}} 1.0' in page


async def test_answers_in_one_piece_have_none(tmp_path: Path) -> None:
    """Nothing goes out before a complete answer, however long it takes: its status is its own."""
    gate = asyncio.Event()
    async with _silent(tmp_path, gate) as (running, client):
        complete = asyncio.create_task(client.post("/v1/chat/completions", json=QUESTION))
        await eventually_async(lambda: running.gateway.admission.load.running == 1)
        async with client.stream("POST", "/v1/chat/completions", json=STREAMED) as response:
            lines: list[str] = []
            async for line in response.aiter_lines():
                lines += [line] if line else []
                if lines.count(COMMENT) == 3:
                    gate.set()
        answer = await complete
    assert answer.json()["choices"][0]["message"]["content"] == "a red one"
    assert int(answer.headers["content-length"]) == len(answer.content)
