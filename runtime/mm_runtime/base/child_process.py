"""Owns one child process: its group, its output, its end.

The child dies with this process (parent-death signal), its group ends with it, and its output
passes line by line to a function, bounded in length. Exit codes follow the shell: 128 + the number
of the signal.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from mm_runtime.base.stop_signal import StopSignal
from mm_runtime.errors import PermanentError

LINE_BYTES = 8192
"""Longer lines are cut into pieces: a progress bar without newlines must not fill memory."""

TAIL_LINES = 40
"""Kept for the message about a failure: more than fits into a termination message."""

READER_SECONDS = 5.0
"""How long the last output may take after the group was killed."""


class ChildProcess:
    """One child, started at once; `on_line` gets each line of its output, in another thread.

    `forked`: starts it in another way, writing into a descriptor, and returns its number, or None.

    Raises:
        PermanentError: util-linux's setpriv, which sets the parent-death signal, is missing.
        OSError: the program does not start.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        on_line: Callable[[str], None],
        *,
        folder: Path | None = None,
        forked: Callable[[int], int | None] | None = None,
    ) -> None:
        self.exit_code: int | None = None
        self.peak_memory_bytes = 0
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._on_line = on_line
        read, write = os.pipe()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            number = forked(write) if forked else None
            if number is None:
                self._process = self._started(argv, env, folder, write)
                number = self._process.pid
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
        self.pid = number
        self._pidfd = os.pidfd_open(self.pid)
        self._reader = threading.Thread(
            target=self._read, args=(os.fdopen(read, "rb"),), name=f"output-{number}", daemon=True
        )
        self._reader.start()

    def _started(
        self, argv: Sequence[str], env: Mapping[str, str], folder: Path | None, output: int
    ) -> subprocess.Popen[bytes]:
        # setpriv instead of preexec_fn: Python code between fork and exec can deadlock once there
        # are threads. The signal is sent when the starting THREAD ends, so start children from the
        # main one.
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            raise PermanentError("setpriv is not installed: add util-linux to the image.")
        return subprocess.Popen(
            [setpriv, "--pdeathsig", "KILL", "--", *argv],
            env=dict(env),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # A group to end, not a session: outside of containers Linux may schedule by sessions.
            # Niceness counts within one only, and the encoder's would not yield to the gateway.
            process_group=0,
        )

    @property
    def tail(self) -> list[str]:
        return list(self._tail)

    def wait(self, seconds: float | None = None, stop: StopSignal | None = None) -> int | None:
        """Wait for the end; return the exit code, or None when time is up or `stop` was set."""
        self.wait_beside((), seconds, stop)
        return self.exit_code

    def wait_beside(
        self, others: Sequence[int], seconds: float | None = None, stop: StopSignal | None = None
    ) -> int | None:
        """Wait for the end, or for that behind one of `others`, descriptors; return which."""
        if self.exit_code is not None:
            return None
        watched = [self._pidfd, *others, *([stop.fd] if stop else [])]
        readable, _, _ = select.select(watched, [], [], seconds)
        if self._pidfd in readable:
            self._reap()
            return None
        return next((one for one in others if one in readable), None)

    def terminate(self) -> None:
        self._signal_group(signal.SIGTERM)

    def stop(self, grace_seconds: float) -> int:
        """End the group: SIGTERM, wait, SIGKILL. Return the exit code."""
        if self.exit_code is None:
            self.terminate()
        deadline = time.monotonic() + grace_seconds
        while self.exit_code is None and (left := deadline - time.monotonic()) > 0:
            self.wait(left)
        if self.exit_code is None:
            self._signal_group(signal.SIGKILL)
            self.wait()
        assert self.exit_code is not None  # noqa: S101 (SIGKILL cannot be refused)
        return self.exit_code

    def _signal_group(self, number: signal.Signals) -> None:
        # The leader is not reaped yet, so its number cannot have been given to another process.
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def _reap(self) -> None:
        self._signal_group(signal.SIGKILL)  # whatever the leader left behind
        _, status, usage = os.wait4(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self.exit_code = code if code >= 0 else 128 - code
        if self._process is not None:
            self._process.returncode = code  # Popen must not wait for this number again
        self.peak_memory_bytes = usage.ru_maxrss * 1024
        os.close(self._pidfd)
        self._reader.join(READER_SECONDS)

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            while line := stream.readline(LINE_BYTES):
                text = line.decode(errors="replace").rstrip()
                if text:
                    self._tail.append(text)
                    self._on_line(text)
