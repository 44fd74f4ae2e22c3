"""A fork of this process that runs one function and ends."""

import ctypes
import logging
import os
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import IO, NoReturn

_PR_SET_PDEATHSIG = 1
"""Number of the request in linux/prctl.h."""


class Fork:
    """A process group that dies with this process; what is used of it is as in a Popen."""

    stdout: IO[bytes]
    """For the one who made a pipe for the output."""

    def __init__(self, run: Callable[[], None], output: int) -> None:
        parent = os.getpid()
        self.returncode: int | None = None
        with warnings.catch_warnings():
            # From 3.12 on: threads. What is run here takes no lock that another thread may hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            _live(run, output, parent)
        os.setpgid(self.pid, self.pid)

    def wait(self, seconds: float) -> int:
        """Wait for the end; return the exit code, negative: minus the signal's number."""
        descriptor = os.pidfd_open(self.pid)
        in_time = select.select([descriptor], [], [], seconds)[0]
        os.close(descriptor)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)
        if not in_time:
            raise TimeoutError(f"process {self.pid} had not ended after {seconds} s")
        return self.returncode


def _live(run: Callable[[], None], output: int, parent: int) -> NoReturn:
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            _leave_parent(output)
            run()
            code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:  # noqa: BLE001 (as the interpreter does)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _leave_parent(output: int) -> None:
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    logging.root.handlers.clear()
    warnings.simplefilter("ignore")
