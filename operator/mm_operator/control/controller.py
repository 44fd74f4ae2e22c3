"""Workers that take keys and reconcile them, while this replica leads."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic

from mm_operator.control.queue import K, WorkQueue

_LOG = logging.getLogger(__name__)


class RetryLaterError(Exception):
    """A reconcile did what it could; what was refused is tried again with back-off."""


@dataclass(slots=True, eq=False)
class Controller(Generic[K]):
    """Runs workers over a queue.

    `reconcile` returns seconds until a key is requeued, or None. `everything`: every key there is,
    and whether it goes before the others. `fence`: raised by a write while this replica may not
    write; it costs the round, never the worker: who loses the Lease for good has `lead` cancelled.
    `on_key`: called with the key before and None after a reconcile. `reports`: with its result and
    its seconds.
    """

    queue: WorkQueue[K]
    reconcile: Callable[[K], Awaitable[float | None]]
    everything: Callable[[], Iterable[tuple[K, bool]]]
    reports: Callable[[str, float], None]
    workers: int
    fence: type[Exception]
    on_key: Callable[[K | None], None] = lambda _key: None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def lead(self) -> None:
        """Reconcile everything, then what is requested, until cancelled."""
        self.queue.clear()
        for key, first in self.everything():
            self.queue.add(key, priority=first)
        async with asyncio.TaskGroup() as group:
            for number in range(self.workers):
                group.create_task(self._work(), name=f"worker {number}")

    async def _work(self) -> None:
        while True:
            # One round a turn of the event loop. A round that sends nothing awaits nothing: of a
            # thousand in a row, as after a start, one for each worker went before a timer did.
            async with self._turn:
                await asyncio.sleep(0)
                key = await self.queue.get()
            self.on_key(key)
            try:
                await self._one(key)
            finally:
                self.queue.done(key)
                self.on_key(None)

    async def _one(self, key: K) -> None:
        started = time.monotonic()
        result = "ok"
        try:
            again = await self.reconcile(key)
        except self.fence:
            result = "fenced"
            delay = self.queue.retry(key)
            _LOG.info("the write fence is closed: tried again in %.1f s", delay)
        except RetryLaterError as error:
            result = "error"
            delay = self.queue.retry(key)
            _LOG.warning("tried again in %.1f s: %s", delay, error)
        except Exception:  # noqa: BLE001  # one model's defect must not stop the others
            result = "error"
            delay = self.queue.retry(key)
            _LOG.exception("reconcile failed, tried again in %.1f s", delay)
        else:
            self.queue.forget(key)
            if again is not None:
                self.queue.add_after(key, again)
        self.reports(result, time.monotonic() - started)
