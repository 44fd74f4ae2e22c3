"""Keeps the Lease, or awaits it, in a thread with an event loop of its own.

Renewal must not wait for the main loop: a loop that stands still for seconds over a large list
would lose the Lease of a replica that is well. A main loop that never comes back is the business of
the liveness probe, which it answers.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, Protocol

from mm_operator.errors import ClusterError
from mm_operator.leadership.lease import Sighting, Timing, claimed, may_take, released, sight

_LOG = logging.getLogger(__name__)

RELEASE_SECONDS = 3.0
"""Giving the Lease back takes two requests of milliseconds. An API server that does not answer
leaves it to run out, and the process has 10 s to end."""


class LeaseApi(Protocol):
    """Reads and writes one Lease; every call has a time-out shorter than the renew deadline."""

    async def get(self) -> dict[str, Any] | None:
        """Return the Lease, or None when there is none."""

    async def create(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Create the Lease; fails when another replica did."""

    async def update(self, lease: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
        """Replace the spec; fails when the Lease changed since it was read."""


OpenLease = Callable[[], AbstractAsyncContextManager[LeaseApi]]
"""Opens the connection in the loop that uses it, and closes it there."""


class LeaseThread:
    """One thread that takes part in the election; see `mm_operator.leadership.elector`."""

    def __init__(
        self,
        connect: OpenLease,
        identity: str,
        timing: Timing,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._identity = identity
        self._timing = timing
        self._clock = clock
        self._terms = 0
        self._sighting: Sighting | None = None
        self._valid_until = float("-inf")
        self._cancel: Callable[[], object] = lambda: None
        self.term = 0
        """Number of the term that runs, 0 while the Lease is not held."""

    def leads(self) -> bool:
        """Return whether this replica may write right now; safe in every thread.

        True ends by the clock, not by a loop noticing: a process that was stopped for a minute
        and resumes finds itself without the right to write.
        """
        return self._clock() < self._valid_until

    def start(self, turned: Callable[[], None]) -> Future[None]:
        """Start the thread, which calls `turned` after each change of `term`."""
        loop = asyncio.new_event_loop()
        task = loop.create_task(self._keep(turned))
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        ended: Future[None] = Future()
        # A daemon: a request that hangs at the end must not hold the process.
        threading.Thread(target=_run, args=(loop, task, ended), name="lease", daemon=True).start()
        return ended

    def stop(self) -> None:
        """Make the thread release the Lease when it is held, and end."""
        with contextlib.suppress(RuntimeError):  # its loop is closed: it has ended
            self._cancel()

    async def _keep(self, turned: Callable[[], None]) -> None:
        async with self._connect() as api:
            try:
                while True:
                    await self._follow(api)
                    self._terms += 1
                    self.term = self._terms
                    turned()
                    while self.leads():
                        await asyncio.sleep(self._timing.retry)
                        await self._attempt(api)
                    self.term = 0
                    turned()
            finally:
                await self._release(api)

    async def _follow(self, api: LeaseApi) -> None:
        while not await self._attempt(api):  # noqa: ASYNC110  # another process holds it: only requests show
            await asyncio.sleep(self._timing.retry)

    async def _attempt(self, api: LeaseApi) -> bool:
        """Read the Lease, take or renew it when allowed; return whether it is ours now."""
        started = self._clock()
        try:
            lease = await api.get()
            if lease is not None:
                self._sighting = sight(lease, self._sighting, self._clock())
                if not may_take(self._sighting, self._identity, self._clock()):
                    self._valid_until = float("-inf")
                    return False
            spec = claimed(lease, self._identity, self._timing, datetime.now(UTC))
            if lease is None:
                await api.create(spec)
            else:
                await api.update(lease, spec)
        except ClusterError as error:
            _LOG.warning("the Lease could not be read or renewed: %s", error)
            return False
        self._valid_until = started + self._timing.renew_deadline
        return True

    async def _release(self, api: LeaseApi) -> None:
        """Give the Lease back, whatever the renewal that was under way has become of.

        The cancelled renewal may still arrive after our read, so a lost race is tried once more.
        """
        held, self._valid_until = self.leads(), float("-inf")
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                for _ in range(2 if held else 0):
                    if await self._gave_back(api):
                        return
        except TimeoutError:
            _LOG.warning("the Lease could not be given back in time; it expires")

    async def _gave_back(self, api: LeaseApi) -> bool:
        """Try once; return whether nothing is left to be done."""
        try:
            lease = await api.get()
            if lease is None or (lease.get("spec") or {}).get("holderIdentity") != self._identity:
                return True
            await api.update(lease, released(lease, datetime.now(UTC)))
        except ClusterError as error:
            _LOG.warning("giving the Lease back failed: %s", error)
            return False
        _LOG.info("the Lease was given back")
        return True


def _run(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None], ended: Future[None]) -> None:
    """Run a loop until its one task has ended; the future takes the task's error."""
    error: BaseException | None = None
    try:
        loop.run_until_complete(task)
    except asyncio.CancelledError:
        pass  # it was stopped
    except BaseException as raised:  # noqa: BLE001  # whatever it is: the main loop raises it again
        error = raised
    loop.close()
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(error)
