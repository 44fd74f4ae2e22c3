"""A step's log: its beginning and its end, however much it prints."""

import logging
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Self

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
