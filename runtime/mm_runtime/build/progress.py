"""Keeps the termination message true while a step runs.

What kills the whole container (the kernel out of memory, a lost node, the end of the grace period)
leaves no time to write how far the build was. So each line of a step's output is followed by a
report that says: this step was running, these are its last lines.
"""

import time
from collections import deque
from pathlib import Path

from mm_api.documents.build_result import BuildFailure, BuildReason, BuildResult
from mm_runtime.build.report import build_report
from mm_runtime.termination import write_termination_message

LINES = 10
"""As many as the operator shows."""

WRITES_PER_SECOND = 100
"""A write takes about 0.25 ms; a step that prints without end must not be slowed down by them."""


class Progress:
    """The report of a build that has not ended.

    Args:
        path: the termination message's file; None when nobody reads one.
        fingerprint: what is being built.
    """

    def __init__(self, path: Path | None, fingerprint: str) -> None:
        self._path = path
        self._fingerprint = fingerprint
        self._step = ""
        self._lines: deque[str] = deque(maxlen=LINES)
        self._second = 0.0
        self._writes = 0

    def begin(self, step: str) -> None:
        """Name the step that runs from now on."""
        self._step = step
        self._lines.clear()
        self._write()

    def line(self, text: str) -> None:
        """Take one line of the step's output."""
        self._lines.append(text)
        now = time.monotonic()
        if now - self._second >= 1:
            self._second, self._writes = now, 0
        if self._writes < WRITES_PER_SECOND:
            self._writes += 1
            self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        failure = BuildFailure(
            reason=BuildReason.STEP_FAILED,
            step=self._step,
            message=f"Step {self._step} was running when its container was ended from outside.",
            log_tail=list(self._lines),
            retryable=True,
        )
        result = BuildResult(fingerprint=self._fingerprint, failure=failure)
        write_termination_message(self._path, build_report(result))
