"""How many requests are inside at one time: the N that the CUDA memory pool was computed for.

A request whose body is complete gets a place (running or waiting; all taken means 429, before its
body is read where that is known by then) and, once its prompt and images are prepared, a slot. Only
slots count against `max_concurrency`.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from mm_runtime.gateway.errors import InvalidRequestError, OverloadedError

_MAX_RETRY_AFTER_SECONDS = 60
_WEIGHT = 0.2
"""Weight of the newest duration in the running mean: about the last ten requests count."""


@dataclass(slots=True)
class Load:
    """What is inside now."""

    running: int = 0
    waiting: int = 0
    observers: list[Callable[["Load"], None]] = field(default_factory=list)

    def changed(self) -> None:
        """Call the observers."""
        for observer in self.observers:
            observer(self)


class Admission:
    """Bounded concurrency with a bounded, fair queue.

    Attributes:
        capacity: requests that run or wait at one time, at most.
    """

    def __init__(
        self, *, max_concurrency: int, max_queue_size: int, clock: Callable[[], float]
    ) -> None:
        self.capacity = max_concurrency + max_queue_size
        self._slots = asyncio.Semaphore(max_concurrency)  # wakes waiters in order of arrival
        self._max_concurrency = max_concurrency
        self._clock = clock
        self._mean_seconds = 1.0
        self.load = Load()

    @property
    def inside(self) -> int:
        """Requests that hold a place."""
        return self.load.running + self.load.waiting

    def check(self, places: int = 1) -> None:
        """Refuse a request for which there are not so many places.

        Raises:
            OverloadedError: all places are taken.
        """
        if self.inside + places > self.capacity:
            raise OverloadedError(
                f"The model is busy: {self.load.running} requests run and {self.load.waiting} "
                "wait. Try again later.",
                retry_after_seconds=self._estimate_wait(),
                reason="queue_full",
                code="rate_limit_exceeded",
            )

    @contextmanager
    def admit(self, places: int = 1) -> Iterator[None]:
        """Hold a place for each of a request's answers.

        Raises:
            InvalidRequestError: there will never be so many.
            OverloadedError: they are taken.
        """
        if places > self.capacity:
            raise InvalidRequestError(
                f"The request wants {places} answers; this model has places for "
                f"{self.capacity} at one time.",
                param="n",
            )
        self.check(places)
        self.load.waiting += places
        self.load.changed()
        try:
            yield
        finally:
            self.load.waiting -= places
            self.load.changed()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[float]:
        """Wait for a slot, hold it, and yield the seconds waited. Needs a place."""
        enqueued = self._clock()
        async with self._slots:
            started = self._clock()
            self._move(+1)
            try:
                yield started - enqueued
            finally:
                self._move(-1)
                taken = self._clock() - started
                self._mean_seconds += _WEIGHT * (taken - self._mean_seconds)

    def _move(self, count: int) -> None:
        self.load.running += count
        self.load.waiting -= count
        self.load.changed()

    def _estimate_wait(self) -> int:
        """Return seconds until half of the queue is gone, at the pace of the last requests."""
        seconds = self._mean_seconds * self.load.waiting / self._max_concurrency / 2
        return max(1, min(_MAX_RETRY_AFTER_SECONDS, math.ceil(seconds)))
