"""How many requests are inside at one time: the N that the CUDA memory pool was computed for.

A request whose body is complete gets a place (running or waiting; all taken means 429, before its
body is read where that is known by then) and, once its prompt and images are prepared, a slot. Only
slots count against `max_concurrency`. Which request gets a slot next, `FairQueue` decides.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from mm_edge.errors import InvalidRequestError, OverloadedError
from mm_runtime.gateway.admission.fair_queue import PLAIN, FairQueue, Ticket

_RETRY_AFTER_SECONDS = 1
"""A place is free as soon as any request ends."""


@dataclass(slots=True)
class Load:
    """What is inside now."""

    running: int = 0
    waiting: int = 0
    waiting_tokens: int = 0
    """Tokens of requests that wait for a slot: prompts, features, longest answers."""

    observers: list[Callable[["Load"], None]] = field(default_factory=list)

    def changed(self) -> None:
        for observer in self.observers:
            observer(self)


class Admission:
    """Bounded concurrency with a bounded, fair queue."""

    def __init__(
        self,
        *,
        max_concurrency: int,
        max_queue_size: int,
        clock: Callable[[], float],
        max_queue_tokens: int | None = None,
    ) -> None:
        """Take the bounds; `max_queue_tokens` None: only requests are counted."""
        self.capacity = max_concurrency + max_queue_size
        self._free = max_concurrency
        self._max_queue_tokens = max_queue_tokens
        self._clock = clock
        self.queue: FairQueue[asyncio.Future[None]] = FairQueue()
        self.load = Load()
        self._displaced: list[Callable[[], None]] = []
        """Ends a request that has its slot as long as no other waits for one."""

    @property
    def inside(self) -> int:
        return self.load.running + self.load.waiting

    def check(self, places: int = 1) -> None:
        """Refuse a request for which there are not so many places."""
        if self.inside + places > self.capacity:
            raise OverloadedError(
                f"The model is busy: {self.load.running} requests run and {self.load.waiting} "
                "wait. Try again later.",
                retry_after_seconds=_RETRY_AFTER_SECONDS,
                reason="queue_full",
                code="rate_limit_exceeded",
            )

    @staticmethod
    def gives_way() -> OverloadedError:
        """Return the refusal of a replay beside requests of clients that wait."""
        return OverloadedError(
            "A replay gives way to requests of clients.",
            retry_after_seconds=_RETRY_AFTER_SECONDS,
            reason="replay",
            code="rate_limit_exceeded",
        )

    @contextmanager
    def admit(self, places: int = 1, param: str = "n") -> Iterator[None]:
        """Hold a place for each of a request's answers.

        `param`: part of the request that says it.

        Raises:
            InvalidRequestError: there will never be so many.
            OverloadedError: they are taken.
        """
        if places > self.capacity:
            raise InvalidRequestError(
                f"The request wants {places} answers; this model has places for "
                f"{self.capacity} at one time. Request fewer.",
                param=param,
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
    async def slot(self, ticket: Ticket = PLAIN) -> AsyncIterator[float]:
        """Wait for a slot, hold it, and yield the seconds waited.

        A ticket that counts needs a place. One that can be displaced does not wait.

        Raises:
            OverloadedError: requests that wait have too many tokens, or this one may not wait.
        """
        enqueued = self._clock()
        await self._take(ticket)
        started = self._clock()
        if ticket.counted:
            self._move(+1)
        if ticket.displaced:
            self._displaced.append(ticket.displaced)
        try:
            yield started - enqueued
        finally:
            if ticket.displaced in self._displaced:
                self._displaced.remove(ticket.displaced)
            if ticket.counted:
                self._move(-1)
            self._give()

    async def _take(self, ticket: Ticket) -> None:
        if not self._free:
            if ticket.displaced:
                raise self.gives_way()
            self._refuse_too_much(ticket)
            if self._displaced:
                self._displaced.pop()()
            await self._wait(ticket)
            return
        self._free -= 1

    async def _wait(self, ticket: Ticket) -> None:
        granted = asyncio.get_running_loop().create_future()
        waiting = self.queue.push(ticket, granted)
        self._count_tokens()
        try:
            await granted
        except asyncio.CancelledError:
            self.queue.remove(waiting)
            self._count_tokens()
            if not granted.cancelled():
                self._give()  # it came at the moment when its request ended
            raise

    def _give(self) -> None:
        """Pass a slot on to the next that waits."""
        while len(self.queue):
            granted = self.queue.pop()
            if not granted.done():  # else its request has just been cancelled
                granted.set_result(None)
                self._count_tokens()
                return
        self._free += 1

    def _move(self, count: int) -> None:
        self.load.running += count
        self.load.waiting -= count
        self.load.changed()

    def _count_tokens(self) -> None:
        self.load.waiting_tokens = self.queue.tokens
        self.load.changed()

    def _refuse_too_much(self, ticket: Ticket) -> None:
        most = self._max_queue_tokens
        # One that waits alone may have any number of tokens: it would never get in otherwise.
        if most is not None and self.queue.tokens and self.queue.tokens + ticket.tokens > most:
            raise OverloadedError(
                f"The model is busy: requests with {self.queue.tokens} tokens wait, and this one "
                f"has up to {ticket.tokens}; {most} may wait. Try again later.",
                retry_after_seconds=_RETRY_AFTER_SECONDS,
                reason="queue_tokens",
                code="rate_limit_exceeded",
            )
