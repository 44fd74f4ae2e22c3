"""The workers: errors of one key leave the others alone, and a closed write fence costs a retry."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

from mm_operator.control.controller import Controller, RetryLaterError
from mm_operator.control.queue import WorkQueue
from support.eventually import eventually_async


class FenceError(Exception):
    """This replica may not write at this moment."""


class Results:
    """Counts results."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def reconciled(self, result: str, seconds: float) -> None:
        assert seconds >= 0
        self.seen.append(result)


@asynccontextmanager
async def leading(
    reconcile: Callable[[str], Awaitable[float | None]], keys: tuple[str, ...]
) -> AsyncIterator[tuple[Results, asyncio.Task[None]]]:
    results = Results()
    controller = Controller(
        WorkQueue(first_retry_seconds=0.01),
        reconcile,
        everything=lambda: [(key, key.startswith("changed")) for key in keys],
        reports=results.reconciled,
        workers=2,
        fence=FenceError,
    )
    task = asyncio.create_task(controller.lead())
    try:
        yield results, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_refusals_are_tried_again() -> None:
    tries: list[str] = []

    async def reconcile(key: str) -> None:
        tries.append(key)
        if key == "bad" and tries.count("bad") < 3:
            raise RetryLaterError("refused")

    async with leading(reconcile, ("bad", "good")) as (results, _):
        await eventually_async(lambda: tries.count("bad") == 3)

        assert tries.count("good") == 1
        await eventually_async(lambda: sorted(results.seen) == ["error", "error", "ok", "ok"])


async def test_what_changed_meanwhile_goes_first() -> None:
    done: list[str] = []

    async def reconcile(key: str) -> None:
        done.append(key)

    async with leading(reconcile, ("a", "b", "changed")):
        await eventually_async(lambda: len(done) == 3)
    assert done[0] == "changed"


async def test_defects_are_logged_and_retried() -> None:
    done: list[str] = []

    async def reconcile(key: str) -> None:
        if key == "bad" and not done:
            done.append("first")
            raise ZeroDivisionError
        done.append(key)

    async with leading(reconcile, ("bad",)):
        await eventually_async(lambda: done == ["first", "bad"])


async def test_a_closed_fence_costs_a_retry_and_no_worker() -> None:
    """Every worker meets the fence more than once: each key comes again, and all of them work."""
    closed = {"a": 3, "b": 3, "c": 3}
    done: list[str] = []

    async def reconcile(key: str) -> None:
        if closed[key]:
            closed[key] -= 1
            raise FenceError
        done.append(key)

    async with leading(reconcile, tuple(closed)) as (results, task):
        await eventually_async(lambda: sorted(done) == ["a", "b", "c"])

        assert not task.done()
        await eventually_async(lambda: sorted(results.seen) == ["fenced"] * 9 + ["ok"] * 3)


async def test_a_round_that_is_cut_off_comes_with_the_next_lead() -> None:
    """A replica that loses the lead in the middle of a round does it again when it leads again."""
    begun: list[str] = []
    results, done = Results(), []

    async def reconcile(key: str) -> None:
        begun.append(key)
        if len(begun) == 1:
            await asyncio.Event().wait()
        done.append(key)

    controller = Controller(
        WorkQueue(first_retry_seconds=0.01),
        reconcile,
        everything=lambda: (("a", False),),
        reports=results.reconciled,
        workers=1,
        fence=FenceError,
    )
    first = asyncio.create_task(controller.lead())
    await eventually_async(lambda: begun == ["a"])
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)

    second = asyncio.create_task(controller.lead())
    try:
        await eventually_async(lambda: done == ["a"])
    finally:
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)


async def test_recheck_comes_by_itself() -> None:
    tries: list[str] = []

    async def reconcile(key: str) -> float | None:
        tries.append(key)
        return 0.01 if len(tries) == 1 else None

    async with leading(reconcile, ("a",)):
        await eventually_async(lambda: tries == ["a", "a"])


async def test_rounds_that_await_nothing_leave_turns_to_others() -> None:
    """After a resync at rest no round sends anything: the rest of the program runs all the same."""
    done: list[str] = []
    turns: list[int] = []

    async def reconcile(key: str) -> None:
        done.append(key)

    async def others() -> None:
        while True:
            turns.append(len(done))
            await asyncio.sleep(0)

    neighbour = asyncio.create_task(others())
    async with leading(reconcile, tuple(map(str, range(100)))):
        await eventually_async(lambda: len(done) == 100)
    neighbour.cancel()
    steps = [later - former for former, later in pairwise(turns)]
    assert max(steps) == 1  # of two workers
