"""Keeps the Lease while this replica leads, and awaits it while another one does.

Not `kubernetes.aio.leaderelection` (read in version 37.0.2): it never gives the Lease back, sends
requests without a time-out of their own (a hanging API server keeps a dead leader leading), ends on
any error that is not an HTTP status, and writes local time marked as UTC.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Protocol

from mm_operator.errors import ClusterError
from mm_operator.leadership.lease import Sighting, Timing, claimed, may_take, released, sight

_LOG = logging.getLogger(__name__)


class LeaseApi(Protocol):
    """Reads and writes one Lease; every call has a time-out shorter than the renew deadline."""

    async def get(self) -> dict[str, Any] | None:
        """Return the Lease, or None when there is none."""

    async def create(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Create the Lease; fails when somebody else did."""

    async def update(self, lease: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
        """Replace the spec; fails when the Lease changed since it was read."""


class Elector:
    """Runs `lead` while this replica holds the Lease.

    Args:
        api: the Lease.
        identity: unique among replicas and over restarts.
        lead: what the leader does; cancelled when the Lease is lost.
        on_change: told True or False when leadership changes.
        timing: see `Timing`.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        api: LeaseApi,
        identity: str,
        lead: Callable[[], Awaitable[None]],
        *,
        on_change: Callable[[bool], None] = lambda _leads: None,
        timing: Timing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._identity = identity
        self._lead = lead
        self._on_change = on_change
        self._timing = timing or Timing()
        self._clock = clock
        self._sighting: Sighting | None = None
        self._valid_until = float("-inf")

    def leads(self) -> bool:
        """Return whether this replica may write right now.

        True ends by the clock, not by the loop noticing: a process that was stopped for a minute
        and goes on finds itself without the right to write.
        """
        return self._clock() < self._valid_until

    async def run(self) -> None:
        """Take part until cancelled, then give the Lease back when it is held."""
        try:
            while True:
                await self._follow()
                await self._hold()
        finally:
            await self._release()

    async def _follow(self) -> None:
        while not await self._attempt():  # noqa: ASYNC110  # another process holds it: only asking tells
            await asyncio.sleep(self._timing.retry)

    async def _hold(self) -> None:
        """Lead, and renew until renewing failed for too long or the work ended."""
        _LOG.info("leading as %s", self._identity)
        self._on_change(True)  # noqa: FBT003  # a callback's only argument
        work = asyncio.ensure_future(self._lead())
        try:
            while self.leads() and not work.done():
                await asyncio.wait({work}, timeout=self._timing.retry)
                if not work.done():
                    await self._attempt()
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work
            self._on_change(False)  # noqa: FBT003  # the same
            _LOG.info("no longer leading")

    async def _attempt(self) -> bool:
        """Read the Lease, take or renew it when allowed; return whether it is ours now."""
        started = self._clock()
        try:
            lease = await self._api.get()
            if lease is not None:
                self._sighting = sight(lease, self._sighting, self._clock())
                if not may_take(self._sighting, self._identity, self._clock()):
                    self._valid_until = float("-inf")
                    return False
            spec = claimed(lease, self._identity, self._timing, datetime.now(UTC))
            if lease is None:
                await self._api.create(spec)
            else:
                await self._api.update(lease, spec)
        except ClusterError as error:
            _LOG.warning("the Lease could not be read or renewed: %s", error)
            return False
        self._valid_until = started + self._timing.renew_deadline
        return True

    async def _release(self) -> None:
        """Give the Lease back, whatever the renewal that was under way has become of.

        The cancelled renewal may still arrive after our read, so a lost race is tried once more.
        """
        held, self._valid_until = self.leads(), float("-inf")
        for _ in range(2 if held else 0):
            try:
                lease = await self._api.get()
                if (
                    lease is None
                    or (lease.get("spec") or {}).get("holderIdentity") != self._identity
                ):
                    return
                await self._api.update(lease, released(lease, datetime.now(UTC)))
            except ClusterError as error:
                _LOG.warning("giving the Lease back failed: %s", error)
            else:
                _LOG.info("the Lease was given back")
                return
