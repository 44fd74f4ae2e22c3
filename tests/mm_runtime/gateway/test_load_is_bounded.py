"""Load that a gateway cannot carry is refused early, with 429 and when to come again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from mm_runtime.gateway.admission.fair_queue import Ticket
from mm_runtime.gateway.admission.slots import Admission, DrainRate
from mm_runtime.gateway.errors import OverloadedError
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


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def _full(
    admission: Admission, clock: _Clock, *, seconds: float, tokens: int, ended: int = 4
) -> AsyncIterator[None]:
    """Hold the only slot, after some requests that took so long each."""
    async with AsyncExitStack() as stack:
        for _ in range(ended):
            async with admission.slot(Ticket(tokens=tokens)):
                clock.now += seconds
        await stack.enter_async_context(admission.slot(Ticket(tokens=tokens)))
        yield


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


def _admission(clock: Callable[[], float], tokens: int | None = None) -> Admission:
    return Admission(max_concurrency=1, max_queue_size=8, clock=clock, max_queue_tokens=tokens)


def test_the_rate_counts_times_with_all_slots_taken() -> None:
    """Ten tokens a second while full; hours of silence, and answers beside free slots, are none."""
    clock = _Clock()
    rate = DrainRate(clock)
    for _ in range(5):
        rate.ended(100, waiting=False)  # not full: nothing is measured
        clock.now += 3600
        rate.filled()
        clock.now += 10
        rate.ended(100, waiting=True)
        clock.now += 10
        rate.ended(100, waiting=False)
    assert rate.tokens_per_second == pytest.approx(10)
    assert rate.seconds_for(50) == pytest.approx(5)


def test_requests_that_are_not_counted_take_no_time() -> None:
    """Warm-up requests have no tokens: the rate would be far too low."""
    clock = _Clock()
    rate = DrainRate(clock)
    for _ in range(9):
        rate.filled()
        clock.now += 10
        rate.ended(0, waiting=False)
    assert rate.tokens_per_second is None


async def test_a_late_answer_is_refused_at_once() -> None:
    """Ten tokens a second and 1,000 that wait: what must begin within 60 s is refused."""
    clock = _Clock()
    admission = _admission(clock)
    async with (
        _full(admission, clock, seconds=10, tokens=100),
        _waiting(admission, Ticket("a", tokens=500), Ticket("a", tokens=500)),
    ):
        hurried = Ticket("a", tokens=100, deadline=clock.now + 60)
        with pytest.raises(OverloadedError) as refused:
            async with admission.slot(hurried):
                pass
        # Of another key, it has a turn soon.
        async with _waiting_too(admission, Ticket("b", tokens=100, deadline=clock.now + 60)):
            pass
        async with _waiting_too(admission, Ticket("a", tokens=100, deadline=clock.now + 200)):
            pass
    assert (refused.value.reason, refused.value.retry_after_seconds) == ("deadline", 40)


@asynccontextmanager
async def _waiting_too(admission: Admission, ticket: Ticket) -> AsyncIterator[None]:
    before = len(admission.queue)

    async def wait() -> None:
        async with admission.slot(ticket):
            pass

    task = asyncio.create_task(wait())
    await eventually_async(lambda: len(admission.queue) == before + 1 or task.done())
    assert not task.done(), task.exception()
    yield
    task.cancel()
    await asyncio.wait({task})


async def test_without_measurements_no_deadline_is_predicted() -> None:
    """The first requests wait: nothing is known of the pace."""
    clock = _Clock()
    admission = _admission(clock)
    async with (
        _full(admission, clock, seconds=10, tokens=100, ended=0),
        _waiting(admission, Ticket(tokens=10_000, deadline=clock.now + 0.001)),
    ):
        pass


async def test_retry_after_follows_the_rate() -> None:
    """A full queue of 800 tokens at ten a second: half of it is gone in 40 s."""
    clock = _Clock()
    admission = _admission(clock)
    async with (
        _full(admission, clock, seconds=10, tokens=100),
        _waiting(admission, *[Ticket(tokens=100)] * 8),
    ):
        with admission.admit(9), pytest.raises(OverloadedError) as refused:
            admission.check()
    assert (refused.value.reason, refused.value.retry_after_seconds) == ("queue_full", 40)


async def test_a_request_that_ends_while_it_waits_takes_no_slot() -> None:
    """Cancelled before its turn and at the moment of it: the next one has the slot."""
    admission = _admission(_Clock())
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
