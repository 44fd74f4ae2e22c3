"""Single flight: one process builds one fingerprint, whatever Job or namespace it belongs to."""

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mm_runtime.launch.stopping import StopSignal

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""flock cannot be waited for beside a signal, so it is tried again; short beside any build."""

REPORT_SECONDS = 30.0


class StoppedWhileWaitingError(Exception):
    """A stop signal came before the lock. Raised by `locked`, caught by the build."""


@contextmanager
def locked(path: Path, stop: StopSignal) -> Iterator[None]:
    """Hold an exclusive lock on a file; it is given back by the kernel when the process dies.

    Raises:
        StoppedWhileWaitingError: a stop signal came first.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o664)
    try:
        _acquire(descriptor, path, stop)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path, stop: StopSignal) -> None:
    began = reported = time.monotonic()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            now = time.monotonic()
            if reported == began or now - reported >= REPORT_SECONDS:
                reported = now
                log.info("another build holds %s; waiting since %.0f s", path, now - began)
            if stop.wait(POLL_SECONDS):
                raise StoppedWhileWaitingError from None
        else:
            return
