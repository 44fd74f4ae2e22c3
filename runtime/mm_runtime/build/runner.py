"""Runs one step in a process of its own: log, deadline, memory, exit code."""

import logging
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from mm_api.documents.engine_manifest import StepRecord
from mm_runtime.build.durable import write_durably
from mm_runtime.build.places import Places
from mm_runtime.build.progress import Progress
from mm_runtime.build.steps import Step
from mm_runtime.launch.process import ChildProcess
from mm_runtime.launch.stopping import StopSignal
from mm_runtime.sources.secrets import is_secret

log = logging.getLogger(__name__)

LOG_BYTES = 1024 * 1024
"""Kept of a step's log in the engine; what comes later goes to the Job's own log only."""

STOP_SECONDS = 5.0
"""A step keeps nothing that SIGTERM would save: outputs count only once it has ended."""

FETCH = "fetch"
"""The one step that may reach out."""

TIMED_OUT = 124
"""Exit code of coreutils' timeout."""


@dataclass
class StepFailedError(Exception):
    """A step ended with an error, ran out of time or was stopped. Caught by the build."""

    step: Step
    exit_code: int
    message: str
    log_tail: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StepRunner:
    """Runs steps of one build, one after the other."""

    source: str
    places: Places
    deadline_seconds: float
    stop: StopSignal
    progress: Progress
    python: str = sys.executable

    def run(self, step: Step) -> StepRecord:
        """Run one step to its end.

        Raises:
            StepFailedError: with the exit code and the last lines of the log.
        """
        log_path = self.places.logs / f"{step.name}.log"
        argv = step.argv(self.python, self.source, self.places)
        command = f"$ {shlex.join(argv)}"
        began = time.monotonic()
        self.progress.begin(step.name)
        with _BoundedLog(log_path, step.name, self.progress) as output:
            # First, so that there is a last line even of a step that is killed while it imports.
            output.write(command)
            child = ChildProcess(argv, _environment(step), output.write)
            try:
                code = child.wait(self.deadline_seconds, self.stop)
            finally:
                child.stop(STOP_SECONDS)
        seconds = time.monotonic() - began
        tail = [command, *child.tail]
        if code is None and self.stop.received is not None:
            message = f"stopped by {self.stop.received.name} after {seconds:.0f} s"
            raise StepFailedError(step, 128 + self.stop.received, message, tail)
        if code is None:
            message = f"not finished after {self.deadline_seconds:.0f} s"
            raise StepFailedError(step, TIMED_OUT, message, tail)
        if code != 0:
            raise StepFailedError(step, code, _explain(code, child.tail), tail)
        return StepRecord(
            name=step.name, seconds=round(seconds, 3), peak_memory_bytes=child.peak_memory_bytes
        )

    def write_reproduce_script(self, steps: Sequence[Step]) -> None:
        """Write the steps as a shell script a person can run in the same image."""
        lines = ["#!/bin/sh", "# The steps of this build, in order, for the same image.", "set -eu"]
        for step in steps:
            lines += ["", f"# {step.name}: {step.purpose}"]
            lines.append(shlex.join(step.argv("python3", self.source, self.places)))
        write_durably(self.places.reproduce, "\n".join(lines) + "\n")


class _BoundedLog:
    """A step's log file, cut at `LOG_BYTES`, repeated in this process's log and its report."""

    def __init__(self, path: Path, step: str, progress: Progress) -> None:
        self._file = path.open("w", encoding="utf-8", buffering=1)
        self._left = LOG_BYTES
        self._step = step
        self._progress = progress

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, line: str) -> None:
        self._progress.line(line)
        log.info("[%s] %s", self._step, line)
        if self._left > 0 and not self._file.closed:
            self._left -= len(line) + 1
            self._file.write(line + "\n" if self._left > 0 else "(cut here)\n")


def _environment(step: Step) -> dict[str, str]:
    plain = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    if step.name == FETCH:
        return {**os.environ, **plain}
    # What fetch has copied is the only source: other steps must not reach out, and code of a
    # checkpoint that may run in them must not find a token.
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    told = {name: value for name, value in os.environ.items() if not is_secret(name)}
    return {**told, **plain, **offline}


def _explain(code: int, tail: Sequence[str]) -> str:
    if code == 128 + 9:
        return "killed (SIGKILL): as a rule out of memory; raise spec.build.resources.limits.memory"
    if code > 128:  # noqa: PLR2004 (a shell's convention for signals)
        return f"ended by signal {code - 128}"
    return tail[-1] if tail else f"ended with exit code {code} and no output"
