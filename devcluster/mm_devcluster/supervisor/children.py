"""Start the cluster's parts so that none outlives the supervisor, and restart those that end."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mm_devcluster.supervisor.spec import Gate, Part

PR_SET_PDEATHSIG = 1  # prctl(2)
RESTART_DELAY = 1.0  # seconds; what a broken part costs at most is one start a second
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Child:
    """A part and, once it was started, its process."""

    part: Part
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    """Unix time of the latest start."""
    restarts: int = 0
    exit_code: int | None = None
    """How the previous process ended; negative: by that signal."""
    not_before: float = 0.0

    @property
    def running(self) -> bool:
        """Whether its process lives, as far as the latest ``tend`` saw."""
        return self.process is not None

    def tend(self, is_open: Callable[[Gate], bool]) -> bool:
        """Notice an end, start what can be started; return whether anything changed."""
        if self.process is not None:
            code = self.process.poll()
            if code is None:
                return False
            self.process, self.exit_code = None, code
            self.not_before = time.monotonic() + RESTART_DELAY
            return True
        if time.monotonic() < self.not_before:
            return False
        # The gate orders the first start only: a part that crashed later finds its peers or
        # crashes again, as it would under any init system.
        if self.started == 0.0 and self.part.gate is not None and not is_open(self.part.gate):
            return False
        self._start()
        return True

    def kill(self) -> None:
        """End the process at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _start(self) -> None:
        if self.started:
            self.restarts += 1
        with Path(self.part.log).open("ab") as log:
            self.process = subprocess.Popen(
                self.part.arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd="/",
                preexec_fn=_prepare,  # noqa: PLW1509 - the supervisor has one thread
            )
        self.started = time.time()


def part_environment(first_in_path: str) -> dict[str, str]:
    """Return a part's environment: of the caller's only how Go collects garbage, no proxy."""
    collector = {"GOGC": os.environ["GOGC"]} if "GOGC" in os.environ else {}
    path = f"{first_in_path}:{SYSTEM_PATH}" if first_in_path else SYSTEM_PATH
    return {"PATH": path, "HOME": "/nonexistent", **collector}


def reap_orphans(own: set[int]) -> None:
    """Collect processes that were handed to us by dying parents; PID 1 has to.

    Args:
        own: Processes of parts, whose exit codes belong to ``Child.tend``.
    """
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid in own:
            return
        os.waitpid(ended.si_pid, 0)


def _prepare() -> None:
    # The supervisor blocks the signals it waits for, and children inherit the mask.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
