"""Keeps the pace: open loop (requests go out when they are due) or closed loop (N users)."""

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from mm_lab.loadtest.arrivals import Due
from mm_lab.loadtest.mix import Question, Requests
from mm_lab.loadtest.results import Result

NOT_SENT = "not-sent"
"""Error of a request that was due while as many as allowed were under way."""

BREATH_SECONDS = 0.1
"""A user whose request failed waits so long: one that called a dead endpoint again at once would
only count how quickly connections are refused, thousands a second."""

Clock = Callable[[], float]
"""Returns the seconds since the run began."""


class Sender(Protocol):
    """Sends a question and returns its result."""

    async def send(self, question: Question, due: float) -> Result:
        """Send; never raises for what the server does."""


@dataclass(slots=True)
class Run:
    """What happened so far; a progress line reads it during the run."""

    results: list[Result] = field(default_factory=list)
    in_flight: int = 0


async def open_loop(
    client: Sender,
    requests: Iterator[tuple[float, Question]],
    run: Run,
    *,
    clock: Clock,
    most_in_flight: int,
) -> None:
    """Send every request when it is due, whatever became of the others; wait for all answers."""
    async with asyncio.TaskGroup() as group:
        for due, question in requests:
            if (wait := due - clock()) > 0:
                await asyncio.sleep(wait)
            if run.in_flight >= most_in_flight:
                now = clock()
                run.results.append(Result(due, now, now, question.images, error=NOT_SENT))
                continue
            # Counted here, not in the task: several may be due before any of them runs.
            run.in_flight += 1
            group.create_task(_one(client, question, due, run))


async def closed_loop(
    client: Sender,
    mix: Requests,
    run: Run,
    *,
    users: int,
    seconds: float,
    seed: int,
    clock: Clock,
    most: int | None = None,
) -> None:
    """Let every user send at once, and again as soon as it is answered, until the time is over.

    Args:
        client: sends.
        mix: what users send.
        run: receives the results.
        users: how many.
        seconds: the time.
        seed: of what is drawn.
        clock: of the run.
        most: requests that are sent at the most; None: as many as there is time for.
    """
    numbers = itertools.count()

    async def user(number: int) -> None:
        source = random.Random(seed * 1_000_003 + number)  # noqa: S311  # load, not secrets
        own = mix.of_user(number)
        now = 0.0  # due then, however late this process comes to it
        for at in numbers:
            if now >= seconds or (most is not None and at >= most):
                return
            run.in_flight += 1
            if await _one(client, own.question(Due(now), source), now, run):
                await asyncio.sleep(BREATH_SECONDS)
            now = clock()

    async with asyncio.TaskGroup() as group:
        for number in range(users):
            group.create_task(user(number))


async def _one(client: Sender, question: Question, due: float, run: Run) -> str:
    """Send and record the result; return the error, empty when there was an answer."""
    try:
        result = await client.send(question, due)
    finally:
        run.in_flight -= 1
    run.results.append(result)
    return result.error
