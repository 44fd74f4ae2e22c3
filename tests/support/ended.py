"""Processes that are ended, and those that end a moment after what ended them."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from support.eventually import eventually

SECONDS = 60.0


def end(process: subprocess.Popen[bytes], seconds: float = SECONDS) -> None:
    """Send SIGTERM, and SIGKILL to what still runs after so many seconds; reap it."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(seconds)


def is_gone(pid: int) -> bool:
    """Report whether a process has ended; one that no one has reaped has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before it was opened, or after
        return True


def wait_until_gone(pid: int) -> None:
    """Return once a process has ended."""
    eventually(
        lambda: is_gone(pid),
        seconds=SECONDS,
        pause_seconds=0.02,
        showing=lambda: f"process {pid} still runs",
    )


@contextmanager
def leaving_nothing(pid: int) -> Iterator[None]:
    """For blocks that kill a command: what runs below it now and has not gone in the end is killed.

    Triton's model processes notice that their server has gone and end by themselves within seconds;
    once in many runs two of them hung in Triton's own exit. Where a supervisor lives it kills them.
    """
    below = psutil.Process(pid).children(recursive=True)
    try:
        yield
    finally:
        _, left = psutil.wait_procs(below, SECONDS)
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
