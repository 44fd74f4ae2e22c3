"""Never more requests in the engine than the plan's N, never more waiting than the queue."""

import asyncio
from pathlib import Path

import httpx

from support.eventually import eventually_async
from support.gateways import MODEL, serve, toy_gateway
from support.scripted_engine import ScriptedEngine

QUESTION = {"model": MODEL, "messages": [{"role": "user", "content": "what is it ?"}]}


async def test_a_full_queue_answers_429_and_the_rest_is_served(tmp_path: Path) -> None:
    """Two run, one waits, the fourth is refused with Retry-After; then the three are answered."""
    gate = asyncio.Event()
    engine = ScriptedEngine(gate=gate)
    async with (
        serve(toy_gateway(tmp_path, engine, max_concurrency=2, max_queue_size=1)) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):
        tasks = [
            asyncio.create_task(client.post("/v1/chat/completions", json=QUESTION))
            for _ in range(3)
        ]
        admission = running.gateway.admission
        await eventually_async(lambda: (admission.inside, engine.running) == (3, 2))
        refused = await client.post("/v1/chat/completions", json=QUESTION)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        busy = (await client.get("/metrics")).text
        gate.set()
        answers = await asyncio.gather(*tasks)
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert engine.most_running == 2
    assert f'mm_requests_running{{model="{MODEL}"}} 2.0' in busy
    assert f'mm_requests_waiting{{model="{MODEL}"}} 1.0' in busy
    assert f'mm_requests_rejected_total{{model="{MODEL}",reason="queue_full"}} 1.0' in busy


async def test_many_at_once_never_exceed_the_slots(tmp_path: Path) -> None:
    """Forty requests through two slots: all answered, never more than two inside the engine."""
    engine = ScriptedEngine()
    async with (
        serve(toy_gateway(tmp_path, engine, max_concurrency=2, max_queue_size=64)) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):
        answers = await asyncio.gather(
            *(client.post("/v1/chat/completions", json=QUESTION) for _ in range(40))
        )
        assert {200} == {answer.status_code for answer in answers}
        await eventually_async(lambda: running.gateway.admission.inside == 0)
    assert engine.most_running == 2


async def test_bodies_that_never_end_hold_no_place(tmp_path: Path) -> None:
    """Four unfinished bodies, more than there are places, and a question is answered at once."""
    unfinished = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 9999\r\n\r\n{"
    async with (
        serve(toy_gateway(tmp_path, ScriptedEngine(), max_concurrency=2, max_queue_size=1)) as run,
        httpx.AsyncClient(base_url=run.url, timeout=60) as client,
    ):
        slow = [await asyncio.open_connection("127.0.0.1", run.port) for _ in range(4)]
        for _, writer in slow:
            writer.write(unfinished)
            await writer.drain()
        await eventually_async(lambda: len(run.server.server_state.tasks) == 4)
        answer = await client.post("/v1/chat/completions", json=QUESTION)
        for _, writer in slow:
            writer.close()
    assert answer.status_code == 200, answer.text
