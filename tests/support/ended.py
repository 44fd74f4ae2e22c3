"""Processes that end a moment after what ended them."""

import time
from pathlib import Path

SECONDS = 60.0


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended; one that nobody has reaped has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before it was opened, or after
        return True


def wait_until_gone(pid: int) -> None:
    """Return once a process has ended."""
    deadline = time.monotonic() + SECONDS
    while not is_gone(pid):
        assert time.monotonic() < deadline, f"process {pid} still runs"
        time.sleep(0.02)
