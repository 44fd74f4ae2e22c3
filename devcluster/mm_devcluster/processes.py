"""Identify a process, and end it: a PID alone may by now belong to another one."""

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

POLL = 0.02  # seconds
START_TIME_FIELD = 19  # of /proc/PID/stat after the command's closing parenthesis; proc(5), 22nd
STATE_FIELD = 0


@dataclass(frozen=True)
class Process:
    """A process of this machine, distinguished from later ones with the same PID."""

    pid: int
    started: int
    """Clock ticks after boot."""

    @property
    def alive(self) -> bool:
        """Whether it runs; a zombie does not."""
        fields = _stat(self.pid)
        return (
            fields is not None
            and int(fields[START_TIME_FIELD]) == self.started
            and fields[STATE_FIELD] not in {"Z", "X"}
        )

    def signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, timeout: float) -> bool:
        """Wait for its end; return whether it came in time."""
        deadline = time.monotonic() + timeout
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL)
        with suppress(ChildProcessError, OSError):  # it was not our child
            os.waitpid(self.pid, os.WNOHANG)
        return True


def find_process(pid: int) -> Process | None:
    """Return the process that has this PID now; None when there is none."""
    fields = _stat(pid)
    return None if fields is None else Process(pid, int(fields[START_TIME_FIELD]))


def children_of(pid: int) -> list[int]:
    """Return the PIDs of a process's children."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields is not None and int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process; 0 when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def namespace_pids(init_pid: int) -> dict[int, int]:
    """Map each PID inside the PID namespace of a process to the PID outside."""
    try:
        namespace = Path(f"/proc/{init_pid}/ns/pid").readlink()
    except OSError:
        return {}
    mapping: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):  # it ended meanwhile
            if (entry / "ns/pid").readlink() != namespace:
                continue
            for line in (entry / "status").read_text().splitlines():
                if line.startswith("NSpid:"):
                    mapping[int(line.split()[-1])] = int(entry.name)
    return mapping


def kill_and_wait(process: Process, timeout: float) -> bool:
    """Kill a process; return whether it was gone in time."""
    process.signal(signal.SIGKILL)
    return process.wait(timeout)


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command may hold spaces and parentheses, so count from its last closing one.
    return text[text.rindex(")") + 2 :].split()
