"""Runs the leader's work while this replica holds the Lease.

Not `kubernetes.aio.leaderelection` (read in version 37.0.2): it never gives the Lease back, sends
requests without a time-out of their own (a hanging API server keeps a dead leader leading), ends on
any error that is not an HTTP status, and writes local time marked as UTC.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from mm_operator.leadership.lease import Timing
from mm_operator.leadership.lease_thread import RELEASE_SECONDS, LeaseThread, OpenLease

_LOG = logging.getLogger(__name__)

_END_SECONDS = 3.0
"""The leader's work ends within milliseconds of its cancellation: its requests are dropped."""


class Elector:
    """Runs `lead` while this replica holds the Lease, which a thread of its own keeps.

    `connect`: opens the Lease, in that thread's loop. `identity`: unique over replicas and
    restarts. `on_change`: called with whether it leads. `clock`: monotonic seconds.
    """

    def __init__(
        self,
        connect: OpenLease,
        identity: str,
        lead: Callable[[], Awaitable[None]],
        *,
        on_change: Callable[[bool], None] = lambda _leads: None,
        timing: Timing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._identity = identity
        self._lead = lead
        self._on_change = on_change
        self._lease_thread = LeaseThread(connect, identity, timing or Timing(), clock)
        self._turned = asyncio.Event()

    def leads(self) -> bool:
        """Return whether this replica may write right now; see `LeaseThread.leads`."""
        return self._lease_thread.leads()

    async def run(self) -> None:
        """Take part until cancelled, then give the Lease back; RuntimeError: work did not end."""
        loop = asyncio.get_running_loop()

        def turned() -> None:
            with contextlib.suppress(RuntimeError):  # the process is ending: the loop is closed
                loop.call_soon_threadsafe(self._turned.set)

        keeping = asyncio.wrap_future(self._lease_thread.start(turned))
        try:
            while not keeping.done():
                term = self._lease_thread.term
                if term:
                    await self._work(term, keeping)
                else:
                    await self._while(term, keeping)
            keeping.result()
        finally:
            self._lease_thread.stop()
            # Longer than the thread gives itself, for the time that its last step takes.
            await asyncio.wait({keeping}, timeout=RELEASE_SECONDS + 1)

    async def _work(self, term: int, keeping: asyncio.Future[None]) -> None:
        """Lead for one term, until it or the work ended."""
        _LOG.info("leading as %s", self._identity)
        self._on_change(True)  # noqa: FBT003  # a callback's only argument
        work = asyncio.ensure_future(self._lead())
        try:
            await self._while(term, keeping, work)
        finally:
            work.cancel()
            await asyncio.wait({work}, timeout=_END_SECONDS)
            self._on_change(False)  # noqa: FBT003  # the same
            _LOG.info("no longer leading")
        if not work.done():
            raise RuntimeError(f"the leader's work did not end within {_END_SECONDS:g} s")
        if not work.cancelled():
            work.result()

    async def _while(self, term: int, *futures: asyncio.Future[None]) -> None:
        """Wait until another term runs, or one of some futures is done."""
        while self._lease_thread.term == term and not any(future.done() for future in futures):
            turning = asyncio.ensure_future(self._turned.wait())
            waited: list[asyncio.Future[Any]] = [turning, *futures]
            try:
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            finally:
                turning.cancel()
            self._turned.clear()
