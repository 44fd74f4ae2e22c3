"""Runs what clients must not wait for: only while none of their requests is inside.

A request that comes cancels what runs; it is repeated when it is quiet again, so what it returns
was computed alone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from mm_runtime.gateway.admission.slots import Load

Result = TypeVar("Result")

QUIET_SECONDS: Final = 1.0
"""Without a request before anything begins: a replica that was created for a crowd gets its first
requests within a fraction of a second after it is Ready."""
PAUSE_SECONDS: Final = 10.0
"""After a run that a request ended. The request waits for the step that the engine has begun, so no
more than one in so long does."""


class Quiet:
    """Knows whether a client's request is inside; what it runs itself does not count."""

    def __init__(self, load: Load) -> None:
        self._empty, self._arrived = asyncio.Event(), asyncio.Event()
        self._current: asyncio.Future[Any] | None = None
        self._disturbed = False
        self._quiet = False
        """Whether it was quiet for long enough, and no request has come since."""

        self._observe(load)
        load.observers.append(self._observe)

    async def run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of the first run beside which no request came."""
        while True:
            await self._is_quiet()
            self._disturbed = False
            current: asyncio.Future[Result] = asyncio.ensure_future(work())
            self._current = current
            try:
                await asyncio.gather(current, return_exceptions=True)
            finally:
                self._current = None
            if not self._disturbed:
                return current.result()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _is_quiet(self) -> None:
        while not self._quiet:
            await self._empty.wait()
            try:
                await asyncio.wait_for(self._arrived.wait(), QUIET_SECONDS)
            except TimeoutError:
                self._quiet = True

    def _observe(self, load: Load) -> None:
        if load.running + load.waiting:
            self._quiet = False
            self._empty.clear()
            self._arrived.set()
            if self._current is not None:
                self._disturbed = True
                self._current.cancel()
        else:
            self._arrived.clear()
            self._empty.set()
