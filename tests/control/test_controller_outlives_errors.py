"""The workers: errors of one key leave the others alone, and a lost lead ends them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from mm_operator.control.controller import Controller, RetryLaterError
from mm_operator.control.queue import WorkQueue
from support.eventually import eventually


class LostError(Exception):
    """This replica no longer leads."""


class Results:
    """Counts results."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def reconciled(self, result: str, seconds: float) -> None:
        """Take one result."""
        assert seconds >= 0
        self.seen.append(result)


@asynccontextmanager
async def leading(
    reconcile: Callable[[str], Awaitable[float | None]], keys: tuple[str, ...]
) -> AsyncIterator[tuple[Results, asyncio.Task[None]]]:
    """Run a controller over some keys."""
    results = Results()
    controller = Controller(
        WorkQueue(first_retry_seconds=0.01),
        reconcile,
        everything=lambda: keys,
        reports=results,
        workers=2,
        stops=LostError,
    )
    task = asyncio.create_task(controller.lead())
    try:
        yield results, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_refusals_are_tried_again() -> None:
    """A refused key is retried until it goes well; another key is not held up."""
    tries: list[str] = []

    async def reconcile(key: str) -> None:
        tries.append(key)
        if key == "bad" and tries.count("bad") < 3:
            raise RetryLaterError("refused")

    async with leading(reconcile, ("bad", "good")) as (results, _):
        await eventually(lambda: tries.count("bad") == 3)

        assert tries.count("good") == 1
        await eventually(lambda: sorted(results.seen) == ["error", "error", "ok", "ok"])


async def test_defects_are_logged_and_retried() -> None:
    """An unexpected exception is an error of its key alone."""
    done: list[str] = []

    async def reconcile(key: str) -> None:
        if key == "bad" and not done:
            done.append("first")
            raise ZeroDivisionError
        done.append(key)

    async with leading(reconcile, ("bad",)):
        await eventually(lambda: done == ["first", "bad"])


async def test_a_lost_lead_ends_the_workers() -> None:
    """A write that is forbidden ends the work without a retry."""

    async def reconcile(key: str) -> None:
        raise LostError(key)

    async with leading(reconcile, ("a", "b")) as (results, task):
        await asyncio.wait_for(asyncio.shield(task), 60)

        assert results.seen == []


async def test_recheck_comes_by_itself() -> None:
    """A key whose decision depends on time is looked at again after that time."""
    tries: list[str] = []

    async def reconcile(key: str) -> float | None:
        tries.append(key)
        return 0.01 if len(tries) == 1 else None

    async with leading(reconcile, ("a",)):
        await eventually(lambda: tries == ["a", "a"])
