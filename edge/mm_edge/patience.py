"""How long to wait for a peer, counted only while this process runs."""

import asyncio
from types import TracebackType
from typing import Self

_STEPS = 10


class Patience:
    """Raises TimeoutError when a block has waited for a number of seconds.

    They pass in steps, between which the event loop looks at every connection. A pause of the
    process (SIGSTOP, a node without CPU time) is one step: what the peer did meanwhile is seen.
    """

    def __init__(self, seconds: float) -> None:
        self._step_seconds = seconds / _STEPS
        self._limit = asyncio.timeout(None)
        self._loop = asyncio.get_running_loop()
        self.restart()

    def restart(self) -> None:
        self._left = _STEPS

    async def __aenter__(self) -> Self:
        await self._limit.__aenter__()
        self._next = self._loop.call_later(self._step_seconds, self._step)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._next.cancel()
        await self._limit.__aexit__(kind, error, traceback)

    def _step(self) -> None:
        self._left -= 1
        if self._left:
            self._next = self._loop.call_later(self._step_seconds, self._step)
        else:
            self._limit.reschedule(self._loop.time())
