"""The election loop against a Lease whose answers the test decides."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mm_operator.errors import ClusterError
from mm_operator.leadership.elector import Elector
from mm_operator.leadership.lease import Timing
from support.eventually import eventually, eventually_async

FAST = Timing(duration=1.0, renew_deadline=0.2, retry=0.02)
CALM = Timing(duration=120.0, renew_deadline=60.0, retry=0.02)
"""Where nothing is to run out: a leader that did not run for a while has nothing to give back.
"""


class LeaseInMemory:
    """One Lease that can become unreachable."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.reachable = True
        self.writes = 0
        self.refused = 0
        self._lock = threading.Lock()

    async def get(self) -> dict[str, Any] | None:
        self._check()
        return self.lease

    async def create(self, spec: dict[str, Any]) -> dict[str, Any]:
        self._check()
        self.lease = {"metadata": {"resourceVersion": "1"}, "spec": spec}
        return self.lease

    async def update(self, lease: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
        self._check()
        with self._lock:  # each candidate queries from a thread of its own
            if lease["metadata"] != self.lease["metadata"]:
                raise ClusterError(409, "Lease", "x", "changed")
            version = int(lease["metadata"]["resourceVersion"]) + 1
            self.lease = {"metadata": {"resourceVersion": str(version)}, "spec": spec}
            self.writes += 1
            return self.lease

    @asynccontextmanager
    async def connect(self) -> AsyncIterator["LeaseInMemory"]:
        yield self

    def _check(self) -> None:
        if not self.reachable:
            self.refused += 1
            raise ClusterError(0, "Lease", "x", "no answer")


def standing_still(condition: Callable[[], bool]) -> None:
    """Block the event loop until a condition holds, which only another thread can bring about."""
    eventually(
        condition,
        seconds=60,
        pause_seconds=0.001,
        showing=lambda: "nothing happened beside the event loop",
    )


class Work:
    """What a leader does: it only notes when it starts and ends."""

    def __init__(self) -> None:
        self.running = 0
        self.started = 0

    async def lead(self) -> None:
        self.running += 1
        self.started += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.running -= 1


@pytest.fixture
def lease() -> LeaseInMemory:
    return LeaseInMemory()


@asynccontextmanager
async def leading(
    lease: LeaseInMemory, timing: Timing = CALM, **more: Any
) -> AsyncIterator[tuple[Elector, Work, asyncio.Task[None]]]:
    work = Work()
    elector = Elector(lease.connect, "me", work.lead, timing=timing, **more)
    task = asyncio.create_task(elector.run())
    await eventually_async(lambda: work.running == 1)
    yield elector, work, task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_unreachable_api_server_ends_the_lead(lease: LeaseInMemory) -> None:
    async with leading(lease, FAST) as (elector, work, _):
        lease.reachable = False
        await eventually_async(lambda: not elector.leads() and work.running == 0)
        lease.reachable = True

        await eventually_async(lambda: elector.leads() and work.running == 1)


async def test_a_stolen_lease_ends_the_lead(lease: LeaseInMemory) -> None:
    async with leading(lease) as (elector, work, _):
        spec = {"holderIdentity": "thief", "leaseDurationSeconds": 60}
        lease.lease = {"metadata": {"resourceVersion": "99"}, "spec": spec}

        await eventually_async(lambda: not elector.leads() and work.running == 0)
    assert lease.lease["spec"]["holderIdentity"] == "thief"


async def test_the_right_to_write_ends_by_the_clock(lease: LeaseInMemory) -> None:
    """A process that was stopped for a while finds itself without the right to write."""
    moment = [0.0]
    async with leading(lease, clock=lambda: moment[0]) as (elector, _, _):
        moment[0] += CALM.renew_deadline

        assert elector.leads() is False


async def test_ending_gives_the_lease_back(lease: LeaseInMemory) -> None:
    async with leading(lease) as (_, work, _):
        pass

    assert (lease.lease["spec"]["holderIdentity"], work.running) == ("", 0)


async def test_a_renewal_under_way_does_not_keep_the_lease(lease: LeaseInMemory) -> None:
    """A renewal that arrives while the leader stops is overtaken by a second attempt."""
    update, lost = lease.update, []

    async def update_late(read: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
        if not lost:
            lost.append(await update(read, {**spec, "holderIdentity": "me"}))
            raise ClusterError(409, "Lease", "x", "changed")
        return await update(read, spec)

    async with leading(lease) as (_, _, task):
        task.cancel()
        lease.update = update_late  # type: ignore[method-assign]  # one answer gets lost

    assert lost
    assert lease.lease["spec"]["holderIdentity"] == ""


async def test_failing_work_ends_the_election(lease: LeaseInMemory) -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(Elector(lease.connect, "me", fail, timing=CALM).run(), 60)

    assert lease.lease["spec"]["holderIdentity"] == ""


async def test_a_loop_that_stands_still_keeps_the_lease(lease: LeaseInMemory) -> None:
    """The Lease is renewed beside a main loop that is blocked beyond the renew deadline."""
    moment, rivals = [0.0], Work()
    options: dict[str, Any] = {"timing": CALM, "clock": lambda: moment[0]}
    rival = Elector(lease.connect, "rival", rivals.lead, **options)
    async with leading(lease, **options) as (elector, work, _):
        other = asyncio.create_task(rival.run())

        while moment[0] < 2 * CALM.renew_deadline:  # nothing is awaited here
            renewed = lease.writes
            moment[0] += 1
            standing_still(lambda renewed=renewed: lease.writes > renewed)
            assert (elector.leads(), rival.leads()) == (True, False)

        await asyncio.sleep(0.1)
        assert (work.running, work.started, rivals.started) == (1, 1, 0)
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)


async def test_a_term_that_ended_unnoticed_is_not_worked_on(lease: LeaseInMemory) -> None:
    """A Lease that was lost and won again while the loop stood still begins all the work again.

    Another replica may have led in between.
    """
    async with leading(lease, FAST) as (elector, work, _):
        lease.reachable = False
        standing_still(lambda: not elector.leads())
        refused = lease.refused
        standing_still(lambda: lease.refused > refused + 2)
        lease.reachable = True
        standing_still(elector.leads)

        await eventually_async(lambda: work.started >= 2 and work.running == 1)


async def test_a_failing_keeper_ends_the_election(lease: LeaseInMemory) -> None:
    """An error of the renewing thread that is no answer of the API server is not swallowed."""

    async def broken() -> None:
        raise ZeroDivisionError

    lease.get = broken  # type: ignore[assignment]

    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(Elector(lease.connect, "me", Work().lead, timing=CALM).run(), 60)
