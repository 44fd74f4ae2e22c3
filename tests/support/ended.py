"""Processes that are ended, and those that end a moment after what ended them."""

import subprocess
from pathlib import Path

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
