"""On its way out a gateway finishes what it has, serves latecomers, and only then refuses."""

import asyncio
from pathlib import Path

from mm_edge.drain import Phase
from support.eventually import eventually_async
from support.gateways import MODEL, client_of, toy_gateway
from support.scripted_engine import ScriptedEngine

QUESTION = {"model": MODEL, "messages": [{"role": "user", "content": "what is it ?"}]}


async def test_latecomers_are_served_and_sent_away(tmp_path: Path) -> None:
    """While leaving, answers close their connection and readiness is gone."""
    gateway = toy_gateway(tmp_path, ScriptedEngine())
    async with client_of(gateway) as client:
        before = await client.post("/v1/chat/completions", json=QUESTION)
        leaving = asyncio.create_task(gateway.drain.leave(lame_duck_seconds=60, timeout_seconds=60))
        await eventually_async(lambda: gateway.drain.phase is Phase.LEAVING)
        late = await client.post("/v1/chat/completions", json=QUESTION)
        ready = await client.get("/readyz")
        leaving.cancel()
    assert (before.status_code, late.status_code, ready.status_code) == (200, 200, 503)
    assert "connection" not in before.headers
    assert late.headers["connection"] == "close"


async def test_a_running_stream_is_finished_and_new_work_refused(tmp_path: Path) -> None:
    """The drain ends with the last stream; meanwhile new requests get 503 and Retry-After."""
    gate = asyncio.Event()
    gateway = toy_gateway(tmp_path, ScriptedEngine(gate=gate))
    async with client_of(gateway) as client:
        stream = asyncio.create_task(
            client.post("/v1/chat/completions", json={**QUESTION, "stream": True})
        )
        await eventually_async(lambda: gateway.admission.inside == 1)
        leaving = asyncio.create_task(gateway.drain.leave(lame_duck_seconds=0, timeout_seconds=60))
        await eventually_async(lambda: gateway.drain.phase is Phase.REFUSING)
        refused = await client.post("/v1/chat/completions", json=QUESTION)
        assert not leaving.done()
        gate.set()
        assert "[DONE]" in (await stream).text
        assert await leaving
    assert (refused.status_code, refused.headers["retry-after"], refused.headers["connection"]) == (
        503,
        "1",
        "close",
    )


async def test_a_request_that_was_there_before_is_sent_elsewhere(tmp_path: Path) -> None:
    """Its answer begins while the gateway leaves: the client would come back to a refusal."""
    gate = asyncio.Event()
    gateway = toy_gateway(tmp_path, ScriptedEngine(gate=gate))
    async with client_of(gateway) as client:
        requested = asyncio.create_task(client.post("/v1/chat/completions", json=QUESTION))
        await eventually_async(lambda: gateway.admission.inside == 1)
        leaving = asyncio.create_task(gateway.drain.leave(lame_duck_seconds=0, timeout_seconds=60))
        await eventually_async(lambda: gateway.drain.phase is Phase.REFUSING)
        gate.set()
        assert (await requested).headers["connection"] == "close"
        assert await leaving


async def test_a_drain_gives_up_at_its_deadline(tmp_path: Path) -> None:
    gateway = toy_gateway(tmp_path, ScriptedEngine(gate=asyncio.Event()))
    async with client_of(gateway) as client:
        stream = asyncio.create_task(client.post("/v1/chat/completions", json=QUESTION))
        await eventually_async(lambda: gateway.admission.inside == 1)
        assert not await gateway.drain.leave(lame_duck_seconds=0, timeout_seconds=0.1)
        stream.cancel()
