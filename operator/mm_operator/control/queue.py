"""A queue of keys: each once, none twice at a time, later or with back-off where requested.

The rules are those of client-go's work queue. A key that is added while it is worked on is handed
out again afterwards, so no event is lost and no object is reconciled by two workers. As in
controller-runtime's priority queue, what a user changed goes before what only follows from it.
"""

import asyncio
import random
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_PRIORITY_RUN = 7
"""Keys with priority that are handed out in a row while others wait: users who change specs without
end leave an eighth of the rounds to the rest."""
_JITTER = 0.1
"""Retries spread over a tenth of their delay, so that 1,000 refused models do not come at once."""


class WorkQueue(Generic[K]):
    """Keys that wait for a worker.

    The delay after failures of a key doubles, up to the longest. `chance`: a number in [0, 1).
    """

    def __init__(
        self,
        *,
        first_retry_seconds: float = 0.5,
        longest_retry_seconds: float = 300.0,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._first = first_retry_seconds
        self._longest = longest_retry_seconds
        self._chance = chance
        # Sets that keep their order, and which a key that gains priority can leave.
        self._waiting: dict[K, None] = {}
        self._prior: dict[K, None] = {}
        self._prior_run = 0
        self._dirty: dict[K, bool] = {}  # key -> with priority
        self._active: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._wakeup = asyncio.Event()

    @property
    def depth(self) -> int:
        return len(self._waiting) + len(self._prior)

    @property
    def active(self) -> int:
        return len(self._active)

    def add(self, key: K, *, priority: bool = False) -> None:
        """Request a key, with `priority` before keys without; two requests count once."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        if self._dirty.get(key) in {True, priority}:
            return
        self._dirty[key] = priority
        if key not in self._active:
            self._offer(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Request a key later; of two requests the earlier one counts."""
        if key in self._dirty and key not in self._active:
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self.add, key)

    def retry(self, key: K) -> float:
        """Request a key after its back-off and return the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(self._first * 2.0 ** min(failures, 30), self._longest)
        delay *= 1 + _JITTER * self._chance()
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Reset the back-off of a key: it went well, or it is gone."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Return the next key; `done` must follow."""
        while not self.depth:
            self._wakeup.clear()
            await self._wakeup.wait()
        key = self._next()
        del self._dirty[key]
        self._active.add(key)
        return key

    def done(self, key: K) -> None:
        """Give a key back; it comes again when it was requested meanwhile."""
        self._active.discard(key)
        if key in self._dirty:
            self._offer(key)

    def clear(self) -> None:
        """Drop everything that waits: this replica no longer leads."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._waiting.clear()
        self._prior.clear()
        self._dirty.clear()
        self._failures.clear()

    def _offer(self, key: K) -> None:
        if self._dirty[key]:
            self._waiting.pop(key, None)
            self._prior[key] = None
        else:
            self._waiting[key] = None
        self._wakeup.set()

    def _next(self) -> K:
        """Take the key that is due: with priority, unless as many went before as may in a row."""
        prior = bool(self._prior) and (self._prior_run < _PRIORITY_RUN or not self._waiting)
        self._prior_run = self._prior_run + 1 if prior else 0
        keys = self._prior if prior else self._waiting
        key = next(iter(keys))
        del keys[key]
        return key
