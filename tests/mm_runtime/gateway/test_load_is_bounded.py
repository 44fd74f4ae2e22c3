"""Load that a gateway cannot carry is refused early, with 429 and when to come again."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx

from mm_api.contract import REPLAY_HEADER
from mm_runtime.gateway.admission.fair_queue import Ticket
from mm_runtime.gateway.admission.slots import Admission
from support.eventually import eventually_async
from support.gateways import MODEL, client_of, serve, toy_gateway
from support.http_servers import Exchange, serve_local
from support.images import data_url, encode, plain_image
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


async def test_a_replay_gives_way(tmp_path: Path) -> None:
    """It takes a free slot at most, ends when a client waits for that, and counts nowhere."""
    gate = asyncio.Event()
    engine, replay = ScriptedEngine(gate=gate), {REPLAY_HEADER: "1"}
    async with (
        serve(toy_gateway(tmp_path, engine, max_concurrency=1, max_queue_size=1)) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):
        post = partial(client.post, "/v1/chat/completions", json=QUESTION)
        first = asyncio.create_task(post(headers=replay))
        await eventually_async(lambda: engine.running == 1)
        user = asyncio.create_task(post())
        displaced = await first
        await eventually_async(lambda: (engine.cancelled, len(engine.requests)) == (1, 2))
        refused = await post(headers=replay)
        gate.set()
        assert (await user).status_code == 200
        assert (await post(headers=replay)).status_code == 200
        metrics = (await client.get("/metrics")).text
    assert [one.status_code for one in (displaced, refused)] == [429, 429]
    assert f'mm_requests_total{{code="200",model="{MODEL}"}} 1.0' in metrics
    assert 'code="429"' not in metrics
    assert "mm_requests_rejected_total{" not in metrics


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


@asynccontextmanager
async def _waiting(admission: Admission, *tickets: Ticket) -> AsyncIterator[None]:
    """Let requests wait while the block runs."""

    async def wait(ticket: Ticket) -> None:
        async with admission.slot(ticket):
            pass

    tasks = [asyncio.create_task(wait(ticket)) for ticket in tickets]
    await eventually_async(lambda: len(admission.queue) == len(tickets))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_a_request_that_ends_while_it_waits_takes_no_slot() -> None:
    """Cancelled before its turn and at the moment of it: the next one has the slot."""
    admission = Admission(max_concurrency=1, max_queue_size=8, clock=time.monotonic)
    async with admission.slot():
        async with _waiting(admission, Ticket(), Ticket()):
            pass
        late = asyncio.create_task(_hold(admission))
        await eventually_async(lambda: len(admission.queue) == 1)
    late.cancel()  # its turn has come, and it has not run yet
    await asyncio.wait({late})
    async with asyncio.timeout(60), admission.slot():
        assert len(admission.queue) == 0


async def _hold(admission: Admission) -> None:
    async with admission.slot():
        await asyncio.Event().wait()


async def test_too_many_tokens_are_not_let_in(tmp_path: Path) -> None:
    """One long request may wait alone; another beside it is too much, a short one is not."""
    gate = asyncio.Event()
    engine = ScriptedEngine(gate=gate)
    gateway = toy_gateway(
        tmp_path, engine, max_concurrency=1, max_queue_size=8, max_queue_tokens=250
    )
    async with (
        serve(gateway) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):

        async def post(tokens: int) -> httpx.Response:
            body = {**QUESTION, "max_tokens": tokens}
            return await client.post("/v1/chat/completions", json=body)

        tasks = [asyncio.create_task(post(280))]
        await eventually_async(lambda: engine.running == 1)
        tasks.append(asyncio.create_task(post(200)))
        await eventually_async(lambda: len(gateway.admission.queue) == 1)
        refused = await post(200)
        tasks.append(asyncio.create_task(post(10)))
        await eventually_async(lambda: len(gateway.admission.queue) == 2)
        page = (await client.get("/metrics")).text
        waiting = gateway.admission.load.waiting_tokens
        gate.set()
        answers = await asyncio.gather(*tasks)
    assert [one.status_code for one in answers] == [200, 200, 200]
    assert refused.status_code == 429
    assert "250 may wait" in refused.json()["error"]["message"]
    assert int(refused.headers["retry-after"]) >= 1
    assert f'mm_requests_rejected_total{{model="{MODEL}",reason="queue_tokens"}} 1.0' in page
    assert 210 < waiting <= 250
    assert f'mm_tokens_waiting{{model="{MODEL}"}} {waiting}.0' in page


IMAGE = encode(plain_image())


def _body(*urls: str) -> dict[str, object]:
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    content = [{"type": "text", "text": "what is it ?"}, *images]
    return {"model": MODEL, "messages": [{"role": "user", "content": content}]}


async def test_half_of_the_places_wait_for_hosts(tmp_path: Path) -> None:
    """Of four: a third request with a URL gets 429, questions with none are answered."""
    released = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await released.wait()
        await exchange.answer(200, IMAGE)

    gateway = toy_gateway(
        tmp_path, ScriptedEngine(), max_concurrency=2, max_queue_size=2, allow_private_networks=True
    )
    async with (
        serve_local(slow) as host,
        client_of(gateway) as client,
    ):
        url = f"http://127.0.0.1:{host.port}/"

        async def query(*urls: str) -> httpx.Response:
            return await client.post("/v1/chat/completions", json=_body(*urls))

        waiting = [asyncio.create_task(query(url, url)) for _ in range(2)]
        await eventually_async(lambda: len(host.exchanges) == 4)
        refused = await query(data_url(IMAGE), url)
        text, inline = await query(), await query(data_url(IMAGE))
        page = (await client.get("/metrics")).text
        released.set()
        answered = await asyncio.gather(*waiting)
        later = await query(url)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert f'mm_requests_rejected_total{{model="{MODEL}",reason="fetches"}} 1.0' in page
    assert [one.status_code for one in (text, inline, *answered, later)] == [200] * 5
