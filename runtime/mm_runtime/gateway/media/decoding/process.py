"""One decoder's process as its gateway sees it: start, one job at a time, end."""

import asyncio
import fcntl
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from mm_runtime.gateway.media.container import BadRecordingError
from mm_runtime.gateway.media.decoding.wire import (
    HEADER,
    MAX_HEADER_BYTES,
    READY,
    TASK,
    BrokenAnswerError,
    Decoded,
    Job,
    read_header,
)
from mm_runtime.images.media import BadImageError
from mm_runtime.serving.errors import RequestError

_PIPE_BYTES = 1 << 20
"""Linux's limit for users; a pipe holds 64 KiB otherwise, and an image takes as many turns."""

_TUNABLES = "GLIBC_TUNABLES"
_LARGE_PAGES = "glibc.malloc.hugetlb"
"""At 1, pieces of memory of 2 MiB and more come in pages of that size where the kernel has such.
Pixels of an image get new pages with each file, since they are given back: 6,500 faults of 4 KiB
are 8 of 38 ms of a JPEG of three million pixels."""

_START_SECONDS = 120.0
"""Imports take one second of a free core."""

_END_SECONDS = 10.0
"""For the kernel to end a process that was killed."""

_pickled = lru_cache(pickle.dumps)
"""Jobs of images are the same for all that are alike."""

_REFUSALS: dict[str, type[Exception]] = {
    "image": BadImageError,
    "recording": BadRecordingError,
    "request": RequestError,
}


class DecoderEndedError(Exception):
    """A file took its decoder beyond a limit, or broke it. The message is for the client."""


class DecoderFailedError(Exception):
    """A decoder met an error of our own."""


@dataclass(frozen=True, slots=True)
class DecoderLimits:
    """What one file may take of a decoder, from its first byte to the last of the answer."""

    memory_bytes: int
    wall_seconds: float


class DecoderProcess:
    """A decoder; used by one task of an event loop at a time, and ended by any thread."""

    def __init__(self, limits: DecoderLimits) -> None:
        """Start it; it imports while others work."""
        self._limits = limits
        self._ready = False
        self._answering = False
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "mm_runtime.gateway.media.decoding.worker"),
                *(str(limits.memory_bytes), str(os.getpid())),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            # One file, one thread; the pools of linear algebra would only take memory.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", _TUNABLES: _with_large_pages()},
        )
        assert self._process.stdin is not None  # noqa: S101  # a pipe
        assert self._process.stdout is not None  # noqa: S101  # a pipe
        self._tasks, self._answers = self._process.stdin.fileno(), self._process.stdout.fileno()
        for pipe in (self._tasks, self._answers):
            os.set_blocking(pipe, False)
            with suppress(OSError):  # refused beyond what all pipes of a user may hold
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_usable(self) -> bool:
        """Return whether it takes another job: it runs, and owes no part of an answer."""
        return not self._answering and self._process.poll() is None

    async def run(self, job: Job, content: bytes, cpu_seconds: int) -> Decoded:
        """Return what a job makes of a file.

        A caller that is cancelled leaves it unusable.

        Raises:
            BadImageError, BadRecordingError, RequestError: the job's own refusal.
            DecoderEndedError: the file took more than a limit, or ended the process.
            DecoderFailedError: the job raised something else, or the answer is none.
        """
        self._answering = True
        try:
            if not self._ready:
                async with asyncio.timeout(_START_SECONDS):
                    await self._read(bytearray(len(READY)))
                self._ready = True
            async with asyncio.timeout(self._limits.wall_seconds):
                found = await self._run(job, content, cpu_seconds)
        except (EOFError, BrokenPipeError):
            why = await asyncio.to_thread(self._why_ended, cpu_seconds)
            raise DecoderEndedError(why) from None
        except TimeoutError:
            await asyncio.to_thread(self.end)
            raise DecoderEndedError(
                f"decoding it took more than {self._limits.wall_seconds:g} seconds"
            ) from None
        except BrokenAnswerError as error:
            await asyncio.to_thread(self.end)
            raise DecoderFailedError(f"a decoder answered {error}") from None
        self._answering = False
        if isinstance(found, tuple):
            raise _error(*found)
        return found

    def kill(self) -> None:
        """End it from any thread; who uses it finds it gone."""
        self._process.kill()

    def end(self) -> None:
        self._process.kill()
        self._process.wait(_END_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    async def _run(self, job: Job, content: bytes, cpu_seconds: int) -> Decoded | tuple[str, str]:
        pickled = _pickled(job)
        await self._write(TASK.pack(len(pickled), len(content), cpu_seconds) + pickled, content)
        (length,) = HEADER.unpack(await self._read(bytearray(HEADER.size)))
        if length > MAX_HEADER_BYTES:
            raise BrokenAnswerError(f"a header of {length} bytes")
        found = read_header(bytes(await self._read(bytearray(length))), self._limits.memory_bytes)
        if not isinstance(found, tuple) and found.array.nbytes and not found.media_type:
            await self._read(found.array.data.cast("B"))
        return found

    async def _write(self, head: bytes, content: bytes) -> None:
        """Write both, together: the decoder wakes up once for them."""
        left, rest = memoryview(head), memoryview(content)
        while left or rest:
            try:
                count = os.writev(self._tasks, [left, rest])
            except BlockingIOError:
                # A decoder that ends leaves its pipe without a reader: that is an event, too.
                loop = asyncio.get_running_loop()
                await _event(self._tasks, loop.add_writer, loop.remove_writer)
                continue
            left, rest = left[count:], rest[max(0, count - len(left)) :]
            if rest:
                await asyncio.sleep(0)  # as below

    async def _read(self, into: bytearray | memoryview) -> bytearray | memoryview:
        left = memoryview(into)
        while left:
            try:
                count = os.readv(self._answers, [left])
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await _event(self._answers, loop.add_reader, loop.remove_reader)
                continue
            if not count:
                raise EOFError
            left = left[count:]
            if left:
                # A pipe's content at a time, in half a millisecond: other streams have their turn
                # between, also where the decoder fills it as fast as it is read.
                await asyncio.sleep(0)
        return into

    def _why_ended(self, cpu_seconds: int) -> str:
        """Return what ended it, for the client whose file did."""
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            code = 0
        self.end()
        if code == -signal.SIGXCPU:
            return f"decoding it took more than {cpu_seconds} seconds of processor time"
        if code == -signal.SIGKILL:
            return "its decoder was ended, for want of memory or with its request"
        return "its decoder broke over it: the file is damaged, or takes too much memory"


async def _event(pipe: int, add: Callable[..., None], remove: Callable[[int], object]) -> None:
    """Wait until there is something to do at a pipe."""
    came = asyncio.get_running_loop().create_future()
    add(pipe, _note, came)
    try:
        await came
    finally:
        remove(pipe)


def _note(came: "asyncio.Future[None]") -> None:
    if not came.done():
        came.set_result(None)


def _with_large_pages() -> str:
    """Return glibc's settings for a decoder: those of this process come first, and win."""
    given = os.environ.get(_TUNABLES, "")
    if _LARGE_PAGES in given:
        return given
    return ":".join(filter(None, (given, f"{_LARGE_PAGES}=1")))


def _error(kind: str, message: str) -> Exception:
    if kind == "memory":
        return DecoderEndedError("decoding it takes more memory than one file may have")
    refusal = _REFUSALS.get(kind)
    return DecoderFailedError(message) if refusal is None else refusal(message)
