"""Requests that wait take turns by key and tokens; within a key by arrival."""

import asyncio
import random
from functools import partial
from pathlib import Path

import httpx
import pytest

from mm_runtime.gateway.admission.fair_queue import FairQueue, Ticket, Waiting
from mm_runtime.gateway.wiring import Gateway
from support.eventually import eventually_async
from support.gateways import MODEL, serve, toy_gateway
from support.scripted_engine import ScriptedEngine


def _queue(*tickets: Ticket) -> FairQueue[Ticket]:
    queue: FairQueue[Ticket] = FairQueue()
    for ticket in tickets:
        queue.push(ticket, ticket)
    return queue


def _popped(queue: FairQueue[Ticket], count: int) -> list[Ticket]:
    return [queue.pop() for _ in range(count)]


def test_a_late_key_does_not_wait_for_another_ones_queue() -> None:
    """Fifty of one key wait; one of another key is among the next two."""
    queue = _queue(*[Ticket("a", tokens=300)] * 50, Ticket("b", tokens=300))
    assert {one.key for one in _popped(queue, 2)} == {"a", "b"}


def test_shares_are_counted_in_tokens() -> None:
    """Long requests come less often than short ones of another key."""
    queue = _queue(*[Ticket("a", tokens=2000)] * 40, *[Ticket("b", tokens=100)] * 400)
    got = _popped(queue, 200)
    tokens = {key: sum(one.tokens for one in got if one.key == key) for key in "ab"}
    assert abs(tokens["a"] - tokens["b"]) <= 2000 + 256


def test_weights_are_shares() -> None:
    """Weight 3 has three times the tokens while both wait."""
    heavy, light = Ticket("a", weight=3, tokens=256), Ticket("b", tokens=256)
    got = _popped(_queue(*[heavy] * 90, *[light] * 90), 80)
    assert [got.count(heavy), got.count(light)] == [60, 20]


def test_silence_saves_nothing_up() -> None:
    """A key whose queue was empty begins again with nothing, however much it did not use."""
    queue = _queue(Ticket("b", tokens=1))
    queue.pop()
    for key in "ab":
        for _ in range(8):
            ticket = Ticket(key, tokens=256)
            queue.push(ticket, ticket)
    assert "".join(one.key for one in _popped(queue, 8)) == "abababab"


def test_nothing_is_lost_or_served_twice() -> None:
    """Any order of coming, leaving and being served: each one once, and the sums are right."""
    chance = random.Random(20)  # noqa: S311  # an order, not secrets
    queue: FairQueue[int] = FairQueue()
    inside: dict[int, Waiting[int]] = {}
    for number in range(3000):
        what = chance.random()
        if what < 0.5 or not inside:
            ticket = Ticket(
                chance.choice("abc"),
                weight=chance.choice((1, 5)),
                tokens=chance.randrange(5000),
            )
            inside[number] = queue.push(ticket, number)
        elif what < 0.6:
            waiting = inside.pop(chance.choice(list(inside)))
            queue.remove(waiting)
            queue.remove(waiting)
        else:
            del inside[queue.pop()]
        assert len(queue) == len(inside)
        assert queue.tokens == sum(one.ticket.tokens for one in inside.values())
    with pytest.raises(IndexError):
        FairQueue[int]().pop()


def _wait(gateway: Gateway, count: int) -> bool:
    return len(gateway.admission.queue) == count


async def test_a_key_with_many_requests_delays_no_other(tmp_path: Path) -> None:
    """Through the gateway: five of alice wait; bob's, which comes last, is one of the next two."""
    tokens = tmp_path / "token"
    tokens.write_text("alice: a\nbob: b\n")
    gate = asyncio.Event()
    engine = ScriptedEngine(gate=gate)
    gateway = toy_gateway(
        tmp_path / "engine", engine, auth_token_file=tokens, max_concurrency=1, max_queue_size=16
    )
    async with (
        serve(gateway) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):

        async def send(token: str, text: str, **more: str) -> asyncio.Task[int]:
            headers = {"Authorization": f"Bearer {token}", **more}
            body = {"model": MODEL, "messages": [{"role": "user", "content": text}]}

            async def post() -> int:
                answer = await client.post("/v1/chat/completions", json=body, headers=headers)
                return answer.status_code

            before = running.gateway.admission.inside
            task = asyncio.create_task(post())
            await eventually_async(lambda: task.done() or running.gateway.admission.inside > before)
            return task

        tasks = [await send("a", "first")]
        await eventually_async(lambda: engine.running == 1)
        for number in range(5):
            tasks.append(await send("a", f"alice-{number}"))
            await eventually_async(partial(_wait, gateway, number + 1))
        tasks.append(await send("b", "bob"))
        await eventually_async(lambda: len(gateway.admission.queue) == 6)
        refused = await (await send("b", "bob", **{"X-Priority": "high"}))
        gate.set()
        assert await asyncio.gather(*tasks) == [200] * 7
    order = [one.prompt.split()[1] for one in engine.requests]
    assert refused == 400
    assert "bob" in order[1:3]
    assert [one for one in order if one != "bob"] == [
        "first",
        *(f"alice-{number}" for number in range(5)),
    ]
