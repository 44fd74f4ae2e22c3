"""The decoders of one gateway: a few processes, each with a thread that waits for it."""

import asyncio
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from mm_runtime.gateway.media.decoding.process import (
    DecoderEndedError,
    DecoderLimits,
    DecoderProcess,
)
from mm_runtime.gateway.media.decoding.wire import Decoded, Job

Found = TypeVar("Found")


class Run(Protocol):
    """Runs a job in a decoder."""

    def __call__(self, job: Job, content: bytes, cpu_seconds: int) -> Decoded:
        """Return what a job makes of a file; see `DecoderProcess.run`."""


class Decoders:
    """Decodes files in processes; one that is ended is replaced."""

    def __init__(self, count: int, limits: DecoderLimits) -> None:
        """Allow so many at one time; none is started yet."""
        self._limits = limits
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="decode")
        self._count = count
        # One for each thread at most, so that a thread finds one or starts it.
        self._idle: list[DecoderProcess] = []
        self._all: set[DecoderProcess] = set()
        self._closed = False
        self._lock = threading.Lock()
        # Gateways of tests are dropped and not closed.
        weakref.finalize(self, _end_all, self._all)

    def start(self) -> None:
        """Start all, so that the first file does not wait for one."""
        started = [self._start() for _ in range(self._count)]
        with self._lock:
            self._idle += started

    def close(self) -> None:
        """End all, whatever they do."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            busy = self._all.difference(idle)
        for decoder in busy:
            decoder.kill()  # its own thread reaps it
        for decoder in idle:
            self._end(decoder)
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def pids(self) -> set[int]:
        """The processes that run."""
        with self._lock:
            return {decoder.pid for decoder in self._all}

    async def through(self, work: Callable[[Run], Found]) -> Found:
        """Return what `work` does in a thread that has a decoder to run jobs in.

        A caller that is cancelled ends the decoder it holds.
        """
        turn = _Turn(self)
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, work, turn.run)
        except asyncio.CancelledError:
            turn.cancel()
            raise

    def acquire(self) -> DecoderProcess:
        """Return a decoder that no other request holds."""
        with self._lock:
            if self._closed:
                raise DecoderEndedError("the gateway is ending")
            while self._idle:
                decoder = self._idle.pop()
                if decoder.is_alive:
                    return decoder
                self._all.discard(decoder)
                decoder.end()
        return self._start()

    def release(self, decoder: DecoderProcess) -> None:
        """Keep a decoder for the next file; for one that has ended, start another."""
        if not decoder.is_alive:
            self._end(decoder)
            if self._closed:
                return
            decoder = self._start()
        with self._lock:
            if not self._closed:
                self._idle.append(decoder)
                return
        self._end(decoder)

    def _start(self) -> DecoderProcess:
        decoder = DecoderProcess(self._limits)
        with self._lock:
            self._all.add(decoder)
        return decoder

    def _end(self, decoder: DecoderProcess) -> None:
        decoder.end()
        with self._lock:
            self._all.discard(decoder)


class _Turn:
    """One caller's use of the decoders."""

    def __init__(self, decoders: Decoders) -> None:
        self._decoders = decoders
        self._held: DecoderProcess | None = None
        self._cancelled = False
        self._lock = threading.Lock()

    def run(self, job: Job, content: bytes, cpu_seconds: int) -> Decoded:
        """Run a job in a decoder of this turn's own."""
        decoder = self._decoders.acquire()
        try:
            with self._lock:
                if self._cancelled:
                    raise DecoderEndedError("its request was cancelled")
                self._held = decoder
            return decoder.run(job, content, cpu_seconds)
        finally:
            with self._lock:
                self._held = None
                cancelled = self._cancelled
            if cancelled:
                decoder.end()  # killed, and perhaps not gone yet
            self._decoders.release(decoder)

    def cancel(self) -> None:
        """End what runs, and let nothing begin."""
        with self._lock:
            self._cancelled = True
            if self._held is not None:
                self._held.kill()


def _end_all(decoders: set[DecoderProcess]) -> None:
    for decoder in tuple(decoders):
        decoder.end()
