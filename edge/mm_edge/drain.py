"""Leaving without failing a request: serve on for a moment, then refuse, then wait for the last.

A pod that ends is taken out of the Service while it still runs, but clients keep their connections.
So for a moment everything is still served, with `Connection: close` on every answer; clients come
back to another pod. Only then is new work refused.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from mm_edge.errors import DrainingError

LAME_DUCK_SECONDS = 2.0
"""How long requests are still taken after SIGTERM. The preStop delay before it (5 s) is for the
Service's endpoints; this is for connections that clients hold open."""


class Phase(Enum):
    """Where in its life the gateway is."""

    SERVING = "serving"
    LEAVING = "leaving"
    REFUSING = "refusing"


class Drain:
    """Counts requests inside and says what becomes of new ones."""

    def __init__(self) -> None:
        self.phase = Phase.SERVING
        self._inside = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def closing(self) -> bool:
        return self.phase is not Phase.SERVING

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Hold the drain until this request is answered, or raise DrainingError."""
        if self.phase is Phase.REFUSING:
            raise DrainingError(
                "This replica is shutting down. Try again: another one will answer.",
                retry_after_seconds=1,
                reason="draining",
                code="draining",
            )
        self._inside += 1
        self._empty.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()

    async def leave(self, *, lame_duck_seconds: float, timeout_seconds: float) -> bool:
        """Go through the phases; return whether every request was answered in time."""
        self.phase = Phase.LEAVING
        await asyncio.sleep(lame_duck_seconds)
        self.phase = Phase.REFUSING
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True
