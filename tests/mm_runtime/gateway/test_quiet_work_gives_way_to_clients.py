"""What runs while no client is inside ends when one comes, and begins again when it has gone."""

import asyncio

import pytest

from mm_runtime.gateway.admission.slots import Load
from mm_runtime.gateway.warmup import quiet
from mm_runtime.gateway.warmup.quiet import Quiet
from support.cases import cases
from support.eventually import eventually_async


class Work:
    """Runs until it is allowed to end; counts its beginnings."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = asyncio.Event()

    async def __call__(self) -> int:
        self.begun += 1
        mine = self.begun
        await self.may_end.wait()
        return mine


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(quiet, "PAUSE_SECONDS", 0.0)


def move(load: Load, *, waiting: int = 0, running: int = 0) -> None:
    load.waiting, load.running = waiting, running
    load.changed()


@cases("inside", {"waits": {"waiting": 1}, "runs": {"running": 1}})
async def test_nothing_begins_while_a_request_is_inside(inside: dict[str, int]) -> None:
    """Whether it waits or runs; when it has gone the work begins."""
    load, work = Load(), Work()
    move(load, **inside)
    work.may_end.set()
    task = asyncio.create_task(Quiet(load).run(work))
    await asyncio.sleep(0.05)
    assert work.begun == 0
    move(load)

    assert await asyncio.wait_for(task, 60) == 1


async def test_a_request_cancels_the_run_which_is_repeated() -> None:
    """Only a run beside which no request came has a result, also where the request was short."""
    load, work = Load(), Work()
    task = asyncio.create_task(Quiet(load).run(work))
    await eventually_async(lambda: work.begun == 1)
    move(load, waiting=1)
    work.may_end.set()
    move(load)

    assert await asyncio.wait_for(task, 60) == 2


async def test_after_a_cancelled_run_nothing_begins_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Requests that come now and then do not each meet a run."""
    monkeypatch.setattr(quiet, "PAUSE_SECONDS", 3600.0)
    load, work = Load(), Work()
    task = asyncio.create_task(Quiet(load).run(work))
    await eventually_async(lambda: work.begun == 1)
    move(load, waiting=1)
    move(load)
    await asyncio.sleep(0.05)
    task.cancel()

    assert work.begun == 1


async def test_it_is_quiet_after_a_time_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "QUIET_SECONDS", 3600.0)
    work = Work()
    task = asyncio.create_task(Quiet(Load()).run(work))
    await asyncio.sleep(0.05)
    task.cancel()

    assert work.begun == 0


async def test_runs_in_a_row_wait_for_quiet_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty probes would take twenty seconds longer; after a request it is waited for again."""
    load, work = Load(), Work()
    work.may_end.set()
    gate = Quiet(load)
    assert await asyncio.wait_for(gate.run(work), 60) == 1
    monkeypatch.setattr(quiet, "QUIET_SECONDS", 3600.0)
    assert await asyncio.wait_for(gate.run(work), 60) == 2
    move(load, running=1)
    move(load)
    task = asyncio.create_task(gate.run(work))
    await asyncio.sleep(0.05)
    task.cancel()

    assert work.begun == 2


async def test_its_own_end_and_its_errors_are_passed_on() -> None:
    """An error is the caller's; a caller that is cancelled takes the run along."""

    async def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await asyncio.wait_for(Quiet(Load()).run(fails), 60)
    work, ended = Work(), asyncio.Event()

    async def runs() -> None:
        try:
            await work()
        finally:
            ended.set()

    task = asyncio.create_task(Quiet(Load()).run(runs))
    await eventually_async(lambda: work.begun == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(ended.wait(), 60)
