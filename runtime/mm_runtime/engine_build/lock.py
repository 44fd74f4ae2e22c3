"""Single flight: one process builds one fingerprint, whatever Job or namespace it belongs to."""

import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mm_runtime.base.stop_signal import StopSignal

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""flock cannot be waited for beside a signal, so it is tried again; short beside any build."""

REPORT_SECONDS = 30.0

HOLDER_BYTES = 512
"""Namespace and name of a Job, 63 characters each, with room."""


class StoppedWhileWaitingError(Exception):
    """A stop signal came before the lock. Raised by `locked`, caught by the build."""


@contextmanager
def tried(path: Path) -> Iterator[bool]:
    """Hold the lock without waiting for it; False: another process holds it."""
    descriptor = _opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o664)


@contextmanager
def locked(
    path: Path, stop: StopSignal, *, holder: str = "", waiting: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold an exclusive lock on a file; it is given back by the kernel when the process dies.

    `holder`: what others read while they wait; `waiting` is called with it at each report.

    Raises:
        StoppedWhileWaitingError: a stop signal came first.
    """
    descriptor = _opened(path)
    try:
        _acquire(descriptor, path, stop, waiting)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _acquire(
    descriptor: int, path: Path, stop: StopSignal, waiting: Callable[[str], None] | None
) -> None:
    began = reported = time.monotonic()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            now = time.monotonic()
            if reported == began or now - reported >= REPORT_SECONDS:
                reported = now
                holder = os.pread(descriptor, HOLDER_BYTES, 0).decode(errors="replace")
                log.info("%s holds %s; waiting since %.0f s", holder or "?", path, now - began)
                if waiting:
                    waiting(holder)
            if stop.wait(POLL_SECONDS):
                raise StoppedWhileWaitingError from None
        else:
            return
