"""Keeps the termination message true while a step runs.

What kills the container (the kernel out of memory, a lost node, the end of the grace period)
leaves no time to write how far the build was. So each line of a step's output is followed by a
report that says: this step was running, these are its last lines.
"""

import logging
import re
import time
from collections import deque
from pathlib import Path

from mm_api.documents.build_result import BuildFailure, BuildProgress, BuildReason, BuildResult
from mm_api.documents.model_facts import MESSAGE_LIMIT_BYTES
from mm_runtime.base.documents import write_termination_message

log = logging.getLogger(__name__)

LINES = 10
"""As many as the operator shows."""

WRITES_PER_SECOND = 100
"""A write takes about 0.25 ms; a step that prints without end must not be slowed down by them."""

REPEAT_SECONDS = 5.0
"""How far the build is stands in the log's last lines even while a step prints without end: the
operator reads the end only, and no more often than this."""

PERCENT = re.compile(r"(?<![\d.])(\d{1,3})(?:\.\d+)?\s?%")
"""As progress bars write it: `45%`, ` 45.2 %`."""

MOVED = re.compile(r"\b\d+ of (\d+) MiB\b")
"""As our own steps write it: `512 of 13000 MiB, 3 %`."""

PERCENT_WITHIN = 200
"""Characters of a line's end that are looked at: a tool that floods must not cost a search each."""


def percent_in(line: str) -> int | None:
    """Return how far a tool says it is, None when it does not say."""
    found = PERCENT.findall(line[-PERCENT_WITHIN:])
    return int(found[-1]) if found and int(found[-1]) <= 100 else None  # noqa: PLR2004 (percent)


def total_bytes_in(line: str) -> int | None:
    """Return how many bytes a step moves in all, None when it does not say."""
    found = MOVED.search(line[-PERCENT_WITHIN:])
    return int(found[1]) << 20 if found else None


class Progress:
    """The report of a build that has not ended."""

    def __init__(self, path: Path | None, fingerprint: str) -> None:
        self._path = path
        self._fingerprint = fingerprint
        self._step = ""
        self._reported = BuildProgress(fingerprint=fingerprint)
        self._reported_at = 0.0
        self._lines: deque[str] = deque(maxlen=LINES)
        self._second = 0.0
        self._writes = 0

    def begin(self, step: str) -> None:
        self._step = step
        self._lines.clear()
        if step != self._reported.step:
            self.publish(self._reported.model_copy(update={"step": step}))
        self._write()

    def line(self, text: str) -> None:
        """Take one line of the step's output."""
        self._lines.append(text)
        percent = percent_in(text)
        if percent is not None and percent != self._reported.percent:
            update = {"percent": percent, "total_bytes": total_bytes_in(text)}
            self._reported = self._reported.model_copy(update=update)
        now = time.monotonic()
        if now - self._reported_at >= REPEAT_SECONDS:
            self.publish(self._reported)
        if now - self._second >= 1:
            self._second, self._writes = now, 0
        if self._writes < WRITES_PER_SECOND:
            self._writes += 1
            self._write()

    def publish(self, progress: BuildProgress) -> None:
        self._reported = progress
        self._reported_at = time.monotonic()
        log.info("%s", progress.line())

    def wait(self, holder: str) -> None:
        self.publish(self._reported.model_copy(update={"waiting_for": holder or "another builder"}))

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


LINE_LIMIT = 300
"""Characters kept of one log line in the message; the Job's log has them all."""


def build_report(result: BuildResult) -> str:
    """Return the result as JSON that fits: oldest log lines go first, then the message's end."""
    failure = result.failure
    if failure is not None:
        lines = [line[:LINE_LIMIT] for line in failure.log_tail]
        failure = failure.model_copy(update={"log_tail": lines})
        result = result.model_copy(update={"failure": failure})
    while len((text := result.to_json()).encode()) > MESSAGE_LIMIT_BYTES and failure is not None:
        if failure.log_tail:
            failure = failure.model_copy(update={"log_tail": failure.log_tail[1:]})
        else:
            kept = failure.message[: len(failure.message) * 9 // 10]
            failure = failure.model_copy(update={"message": kept})
        result = result.model_copy(update={"failure": failure})
    return text
