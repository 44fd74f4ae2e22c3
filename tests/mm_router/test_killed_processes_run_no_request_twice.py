"""Real processes, killed with SIGKILL under load: each client has an answer, an error or a 503.

Router and replicas are processes of their own. A replica writes down each prompt that its engine
gets, so what ran twice is found there.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path

import httpx
import pytest

from support.gateways import MODEL
from support.toy_processes import Toy, listening, started

SECONDS = 60
NO_LIMITS = httpx.Limits(max_connections=None)


class Outcome(StrEnum):
    """What a client got."""

    ANSWER = "answer"
    EVENT = "error event"
    REFUSED = "503"
    CUT = "connection cut"
    """No one is left who could say anything: the router itself is gone."""


@contextmanager
def site(folder: Path) -> Iterator[tuple[Sequence[Toy], Sequence[Toy], Sequence[Path]]]:
    """Yield two routers, the four replicas behind them, and the logs of these."""
    logs = [folder / f"{number}.log" for number in range(4)]
    with ExitStack() as stack:
        # All at once: each takes seconds to import.
        processes = [
            stack.enter_context(started("gateway", folder / str(number), log))
            for number, log in enumerate(logs)
        ]
        toys = [listening(one) for one in processes]
        addresses = [one.address for one in toys]
        fronts = [stack.enter_context(started("router", *addresses)) for _ in range(2)]
        yield [listening(one) for one in fronts], toys, logs


async def query(client: httpx.AsyncClient, router: Toy, number: int) -> Outcome:
    """Send a request and say what came of it; anything else fails the test."""
    messages = [{"role": "user", "content": f"chat {number}"}]
    body = {"model": MODEL, "messages": messages, "stream": bool(number % 2)}
    try:
        answer = await client.post(f"http://{router.address}/v1/chat/completions", json=body)
    except httpx.TransportError:
        return Outcome.CUT
    if answer.status_code != httpx.codes.OK:
        assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE, answer.text
        assert answer.json()["error"]["code"] in {"replica_lost", "no_replica"}
        assert answer.headers["retry-after"]
        return Outcome.REFUSED
    if number % 2:
        events = [one.removeprefix("data: ") for one in answer.text.split("\n\n") if one]
        if events[-1] == "[DONE]":
            return Outcome.ANSWER
        assert json.loads(events[-1])["error"]["code"] == "replica_lost"
        return Outcome.EVENT
    assert answer.json()["choices"][0]["message"]["content"]
    return Outcome.ANSWER


@pytest.mark.slow
@pytest.mark.timeout(280)
async def test_four_replicas_and_two_routers_are_killed_one_after_another(tmp_path: Path) -> None:
    """A load of 600 requests, three deaths of replicas and one of a router at any stage."""
    with site(tmp_path) as (routers, replicas, logs):
        async with httpx.AsyncClient(timeout=SECONDS, limits=NO_LIMITS) as client:
            first, second = routers
            running: dict[int, asyncio.Task[Outcome]] = {}
            for number in range(600):
                router = (first, second)[number % 4 // 2]
                running[number] = asyncio.create_task(query(client, router, number))
                if number in {150, 250, 350}:
                    alive = [toy for toy in replicas if toy.process.poll() is None]
                    await asyncio.to_thread(alive[0].kill)
                if number == 450:
                    await asyncio.to_thread(first.kill)
                await asyncio.sleep(0.01)
            came = await asyncio.gather(*running.values())
            outcomes = dict(zip(running, came, strict=True))

        ran = Counter(line for log in logs for line in log.read_text().splitlines())
        assert set(ran.values()) == {1}
        # Only clients of the router that was killed have no word.
        cut = {number for number, outcome in outcomes.items() if outcome is Outcome.CUT}
        assert cut
        assert all(number % 4 // 2 == 0 for number in cut)
        assert outcomes[599] is Outcome.ANSWER
        counted = Counter(outcomes.values())
        assert counted[Outcome.ANSWER] > 300
        assert counted[Outcome.EVENT] + counted[Outcome.REFUSED] > 0
