"""The decoders of one gateway: a few processes, which its event loop waits for.

Threads start and end them, which takes tens of milliseconds.
"""

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from mm_runtime.gateway.media.decoding.process import (
    DecoderEndedError,
    DecoderLimits,
    DecoderProcess,
)
from mm_runtime.gateway.media.decoding.wire import Decoded, Job

Found = TypeVar("Found")


Run = Callable[[Job, bytes, int], Awaitable[Decoded]]
"""Runs a job in a decoder: see `DecoderProcess.run`."""


class Decoders:
    """Decodes files in processes; one that is ended is replaced."""

    def __init__(self, count: int, limits: DecoderLimits) -> None:
        """Allow so many at one time; none is started yet."""
        self._limits = limits
        self._count = count
        self._places = asyncio.Semaphore(count)
        # A process ends with the thread that has started it: these stay.
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="decode")
        # Those that no request holds, and those that start; one for each place at most.
        self._idle: list[Future[DecoderProcess]] = []
        self._all: set[DecoderProcess] = set()
        self._closed = False
        self._lock = threading.Lock()
        # Gateways of tests are dropped and not closed.
        weakref.finalize(self, _end_all, self._all)

    def start(self) -> None:
        """Start all, so that the first file does not wait for one."""
        self._idle += [_there(self._start()) for _ in range(self._count)]

    def close(self) -> None:
        """End all, whatever they do."""
        with self._lock:
            self._closed = True
            every = tuple(self._all)
        idle = {one.result() for one in self._idle if one.done() and one.exception() is None}
        self._idle.clear()
        for decoder in every:
            if decoder in idle:
                self._end(decoder)
            else:
                decoder.kill()  # who uses it reaps it
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def pids(self) -> set[int]:
        with self._lock:
            return {decoder.pid for decoder in self._all}

    @property
    def free(self) -> bool:
        """Whether a file that comes now waits for no other."""
        return not self._places.locked()

    async def through(self, work: Callable[[Run], Awaitable[Found]]) -> Found:
        """Return what `work` does with a place, in which it runs jobs; the first come first.

        A caller that is cancelled ends the decoder it holds.
        """
        async with self._places:
            return await work(self._run)

    async def beside(self, make: Callable[[], Found]) -> Found:
        """Return what a thread makes: what would hold the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, make)

    async def _run(self, job: Job, content: bytes, cpu_seconds: int) -> Decoded:
        decoder = await self._acquire()
        try:
            return await decoder.run(job, content, cpu_seconds)
        finally:
            self._release(decoder)

    async def _acquire(self) -> DecoderProcess:
        """Return a decoder that no other request holds."""
        while True:
            if self._closed:
                raise DecoderEndedError("the gateway is ending")
            coming = self._idle.pop() if self._idle else self._threads.submit(self._start)
            if not coming.done():
                await self._come(coming)
            if coming.cancelled():  # by `close`, before it began
                continue
            decoder = coming.result()
            if decoder.is_usable:
                return decoder
            self._end(decoder)

    async def _come(self, coming: Future[DecoderProcess]) -> None:
        """Wait for a decoder that starts; a caller that is cancelled leaves it to the next."""
        try:
            await asyncio.wait({asyncio.wrap_future(coming)})
        except asyncio.CancelledError:
            self._idle.insert(0, coming)
            raise

    def _release(self, decoder: DecoderProcess) -> None:
        """Keep a decoder for the next file; for one that has ended, start another."""
        if self._closed:
            self._end(decoder)
        elif decoder.is_usable:
            self._idle.append(_there(decoder))
        else:
            self._idle.insert(0, self._threads.submit(self._replace, decoder))

    def _replace(self, decoder: DecoderProcess) -> DecoderProcess:
        self._end(decoder)
        return self._start()

    def _start(self) -> DecoderProcess:
        decoder = DecoderProcess(self._limits)
        with self._lock:
            self._all.add(decoder)
            closed = self._closed
        if closed:
            self._end(decoder)
        return decoder

    def _end(self, decoder: DecoderProcess) -> None:
        decoder.end()
        with self._lock:
            self._all.discard(decoder)


def _there(decoder: DecoderProcess) -> Future[DecoderProcess]:
    found: Future[DecoderProcess] = Future()
    found.set_result(decoder)
    return found


def _end_all(decoders: set[DecoderProcess]) -> None:
    for decoder in tuple(decoders):
        decoder.end()
