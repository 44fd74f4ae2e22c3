"""Runs one step in a process of its own: log, deadline, memory, exit code."""

import ctypes
import logging
import os
import re
import shlex
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from mm_api.contract import ExitCode
from mm_api.documents.engine_manifest import StepRecord
from mm_runtime.base.child_process import ChildProcess
from mm_runtime.base.durable import free_bytes, write_durably
from mm_runtime.base.engine_python import engine_python
from mm_runtime.base.first_errors import FirstErrors
from mm_runtime.base.stop_signal import StopSignal
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.forked_steps import IMPORTS, ForkedSteps
from mm_runtime.engine_build.outputs import problem, remove_outputs
from mm_runtime.engine_build.progress import Progress
from mm_runtime.engine_build.step import Step
from mm_runtime.errors import PermanentError

log = logging.getLogger(__name__)

LOG_BYTES = 1024 * 1024
"""Kept of a step's log in the engine, half of it from the beginning and half from the end."""

LINES_PER_SECOND = 200
"""Repeated in the Job's own log. A tool that floods must not push everything else out of the
kubelet's rotation, 50 MiB as a rule."""


class OutputLog:
    """A step's log file, repeated in this process's log, line by line."""

    def __init__(self, path: Path, step: str, on_line: Callable[[str], None]) -> None:
        self._file = path.open("w", encoding="utf-8", buffering=1)
        self._left = LOG_BYTES // 2
        self._end: deque[str] = deque()
        self._end_bytes = 0
        self._dropped = 0
        self._step = step
        self._on_line = on_line
        self._second = 0.0
        self._lines = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._dropped:
            self._file.write(f"({self._dropped} bytes cut here)\n")
        self._file.writelines(f"{line}\n" for line in self._end)
        self._file.close()

    def write(self, line: str) -> None:
        """Take one line."""
        self._on_line(line)
        self._repeat(line)
        if self._file.closed:
            return
        size = len(line.encode(errors="replace")) + 1
        if self._left >= size and not self._end:
            self._left -= size
            self._file.write(line + "\n")
            return
        self._end.append(line)
        self._end_bytes += size
        while self._end_bytes > LOG_BYTES // 2:
            gone = len(self._end.popleft().encode(errors="replace")) + 1
            self._end_bytes -= gone
            self._dropped += gone

    def _repeat(self, line: str) -> None:
        now = time.monotonic()
        if now - self._second >= 1:
            if self._lines > LINES_PER_SECOND:
                log.info("[%s] (%d lines cut here)", self._step, self._lines - LINES_PER_SECOND)
            self._second, self._lines = now, 0
        self._lines += 1
        if self._lines <= LINES_PER_SECOND:
            log.info("[%s] %s", self._step, line)


FULL = re.compile(r"No space left on device|Disk quota exceeded|\bENOSPC\b")
"""What a tool prints, as a rule in a traceback, when a disk is full."""

STOP_SECONDS = 5.0
"""A step keeps nothing that SIGTERM would save: outputs count only once it has ended."""

FETCHES = frozenset({"fetch", "fetch-adapters"})
"""The steps that may reach out. They need clients of servers and no torch."""

_OURS = frozenset({ExitCode.PERMANENT, ExitCode.SOURCE_CHANGED, ExitCode.WEIGHTS_UNUSABLE})
"""Exit codes that end a build for good, which a tool does not know."""

_SECRETS = frozenset(
    prefix + name
    for prefix in ("", "MM_SOURCE_", "MM_STORE_")
    for name in ("HF_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
)
"""Environment variables with tokens and keys of sources and stores."""

_REPORTED = frozenset(ExitCode) - {ExitCode.RETRY}
"""Exit codes of our steps whose last line is their report; 1 is a traceback's as well."""


_PR_SET_DUMPABLE = 4
"""Number of the request in linux/prctl.h."""


def hide_from_children() -> None:
    """Close /proc/PID/environ, /proc/PID/mem and ptrace of this process to its own user.

    An environment that was cleaned for a child stands in full in its parent's /proc/PID/environ:
    Linux keeps there what the process was started with. A process that is not dumpable belongs to
    root there, and only CAP_SYS_PTRACE, which no pod of ours has, opens it. The flag is this
    process's alone: a child has it again from its own exec on.

    Raises:
        PermanentError: the kernel refuses.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise PermanentError(
            "the kernel does not protect this process's environment from build steps"
            f" (PR_SET_DUMPABLE: {os.strerror(ctypes.get_errno())}): run it on a kernel that"
            " allows prctl, or without a seccomp profile that refuses it."
        )


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
    paths: BuildPaths
    deadline_seconds: float
    stop: StopSignal
    progress: Progress
    python: str = field(default_factory=engine_python)
    """Interpreter of the steps that read weights."""
    own_python: str = sys.executable
    """Interpreter of the steps that fetch."""
    forks: ForkedSteps | None = None
    """Starts the steps that share their imports; None: each imports them again."""

    def run(self, step: Step) -> StepRecord:
        """Run one step to its end.

        Raises:
            StepFailedError: with the exit code, and the first errors or the last lines of the log.
        """
        log_path = self.paths.logs / f"{step.name}.log"
        argv = step.argv(self._python_of(step), self.source, self.paths)
        command = f"$ {shlex.join(argv)}"
        began = time.monotonic()
        self.progress.begin(step.name)
        if step.command:
            remove_outputs(self.paths.work, step)
        errors = FirstErrors()
        with OutputLog(log_path, step.name, self.progress.line) as output:

            def take(line: str) -> None:
                errors.add(line)
                output.write(line)

            # First, so that there is a last line even of a step that is killed while it imports.
            output.write(command)
            folder = step.folder(self.paths)
            hide_from_children()
            forks = self.forks if step.module in IMPORTS else None
            forked = partial(forks.start, argv) if forks else None
            child = ChildProcess(argv, environment_of(step), take, folder=folder, forked=forked)
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
            raise StepFailedError(step, ExitCode.TIMED_OUT, message, tail)
        if code != 0:
            code, message = _why(step, code, errors.found, child.tail, self.paths)
            others = [one for one in errors.found if one not in message]
            raise StepFailedError(step, code, message, [command, *others] if errors.found else tail)
        if wrong := problem(self.paths.work, step):
            code = ExitCode.PERMANENT if wrong.permanent else ExitCode.RETRY
            raise StepFailedError(step, code, wrong.message, tail)
        return StepRecord(
            name=step.name, seconds=round(seconds, 3), peak_memory_bytes=child.peak_memory_bytes
        )

    def write_reproduce_script(self, steps: Sequence[Step]) -> None:
        """Write the steps as a shell script a person can run in the same image."""
        lines = ["#!/bin/sh", "# The steps of this build, in order, for the same image.", "set -eu"]
        for step in steps:
            lines += ["", f"# {step.name}: {step.purpose}"]
            # Where there is one environment, its python3 is found through PATH.
            python = "python3" if self.python == self.own_python else self._python_of(step)
            command = shlex.join(step.argv(python, self.source, self.paths))
            folder = step.folder(self.paths)
            lines.append(f"(cd {shlex.quote(str(folder))} && {command})" if folder else command)
        write_durably(self.paths.reproduce, "\n".join(lines) + "\n")

    def _python_of(self, step: Step) -> str:
        return self.own_python if step.name in FETCHES else self.python


def environment_of(step: Step) -> dict[str, str]:
    plain = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    if step.name in FETCHES:
        return {**os.environ, **plain}
    # What fetch has copied is the only source: other steps must not reach out, and code of a
    # checkpoint that may run in them must not find a token: not here, and not in this process.
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    if step.name == "quantize":
        offline = {}  # unless --calib_dataset names a folder, it downloads what it calibrates with
    inherited = {name: value for name, value in os.environ.items() if name not in _SECRETS}
    return {**inherited, **plain, **offline}


def _why(
    step: Step, code: int, errors: list[str], tail: list[str], paths: BuildPaths
) -> tuple[int, str]:
    """Return what the exit code of a step means to us, and why it ended."""
    cause = (errors or tail[-1:] or [""])[0]
    if step.command and any(FULL.search(line) for line in (*errors, *tail)):
        return ExitCode.STORE_NOT_WRITABLE, (
            f"no space left: the store at {paths.store} has {free_bytes(paths.store):,} bytes"
            " free, and the tool needs room there and in its temporary folder. Enlarge"
            " spec.build.store.size or delete old engines."
        )
    if step.command and code == ExitCode.USAGE:
        return ExitCode.PERMANENT, (
            f"the tool refuses its arguments: {cause or 'it prints nothing'}. The plan"
            " was made for another TensorRT-LLM than the image's, or spec.engine.extraBuildArgs"
            " holds an argument that it does not know."
        )
    if not step.command and code in _REPORTED:
        cause = tail[-1] if tail else ""  # our report, whatever a library said before
    return (ExitCode.RETRY if step.command and code in _OURS else code), _explain(code, cause)


def _explain(code: int, cause: str) -> str:
    if code == 128 + 9:
        return "killed (SIGKILL): as a rule out of memory; raise spec.build.resources.limits.memory"
    if code > 128:  # noqa: PLR2004 (a shell's convention for signals)
        return f"ended by signal {code - 128}"
    return cause or f"ended with exit code {code} and no output"
