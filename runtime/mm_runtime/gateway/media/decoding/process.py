"""One decoder's process as its gateway sees it: start, one job at a time, end."""

import fcntl
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

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
    """What one file may take of a decoder.

    Attributes:
        memory_bytes: of the process, its own included.
        wall_seconds: from its first byte to the last of the answer, however busy the machine is.
    """

    memory_bytes: int
    wall_seconds: float


class DecoderProcess:
    """A decoder; used by one thread at a time, and ended by any."""

    def __init__(self, limits: DecoderLimits) -> None:
        """Start it; it imports while others work."""
        self._limits = limits
        self._ready = False
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
        os.set_blocking(self._tasks, False)
        for pipe in (self._tasks, self._answers):
            with suppress(OSError):  # refused beyond what all pipes of a user may hold
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Return whether it takes another job."""
        return self._process.poll() is None

    def run(self, job: Job, content: bytes, cpu_seconds: int) -> Decoded:
        """Return what a job makes of a file.

        Raises:
            BadImageError, BadRecordingError, RequestError: the job's own refusal.
            DecoderEndedError: the file took more than a limit, or ended the process.
            DecoderFailedError: the job raised something else, or the answer is none.
        """
        try:
            return self._run(job, content, cpu_seconds)
        except (EOFError, BrokenPipeError):
            raise DecoderEndedError(self._why_ended(cpu_seconds)) from None
        except TimeoutError:
            self.end()
            raise DecoderEndedError(
                f"decoding it took more than {self._limits.wall_seconds:g} seconds"
            ) from None
        except BrokenAnswerError as error:
            self.end()
            raise DecoderFailedError(f"a decoder answered {error}") from None

    def kill(self) -> None:
        """End it from another thread; its own thread finds it gone."""
        self._process.kill()

    def end(self) -> None:
        """End it and wait until it is gone."""
        self._process.kill()
        self._process.wait(_END_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _run(self, job: Job, content: bytes, cpu_seconds: int) -> Decoded:
        if not self._ready:
            self._read(bytearray(len(READY)), time.monotonic() + _START_SECONDS)
            self._ready = True
        deadline = time.monotonic() + self._limits.wall_seconds
        pickled = pickle.dumps(job)
        self._write(TASK.pack(len(pickled), len(content), cpu_seconds) + pickled, deadline)
        self._write(content, deadline)
        (length,) = HEADER.unpack(self._read(bytearray(HEADER.size), deadline))
        if length > MAX_HEADER_BYTES:
            raise BrokenAnswerError(f"a header of {length} bytes")
        found = read_header(bytes(self._read(bytearray(length), deadline)), self._most_bytes)
        if isinstance(found, tuple):
            raise _error(*found)
        if found.array.nbytes:
            self._read(found.array.data.cast("B"), deadline)
        return found

    @property
    def _most_bytes(self) -> int:
        """Return the size of an answer that fits into a decoder's memory."""
        return self._limits.memory_bytes

    def _write(self, content: bytes, deadline: float) -> None:
        left = memoryview(content)
        while left:
            # A decoder that ends leaves its pipe without a reader: that is an event, too.
            self._wait(deadline, writing=True)
            with suppress(BlockingIOError):
                left = left[os.write(self._tasks, left) :]

    def _read(self, into: bytearray | memoryview, deadline: float) -> bytearray | memoryview:
        left = memoryview(into)
        while left:
            self._wait(deadline, writing=False)
            count = os.readv(self._answers, [left])
            if not count:
                raise EOFError
            left = left[count:]
        return into

    def _wait(self, deadline: float, *, writing: bool) -> None:
        left = deadline - time.monotonic()
        poller = select.poll()
        if writing:
            poller.register(self._tasks, select.POLLOUT)
        else:
            poller.register(self._answers, select.POLLIN)
        if left <= 0 or not poller.poll(left * 1000):
            raise TimeoutError

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
