"""What the processes of a pod hold and use, read from /proc."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
_STUB = "triton_python_backend_stub"


@dataclass(frozen=True)
class Process:
    """One process of the pod: its id, and a name that says what it is for."""

    pid: int
    name: str


def below(pid: int) -> list[Process]:
    """Return a process and everything below it, less what ends meanwhile.

    Raises:
        OSError: there is no such process.
    """
    found = [Process(pid, _name(pid))]
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in (task / "children").read_text().split():
                found += below(int(child))
    return found


def memory_bytes(pid: int) -> int:
    """Return what a process may leak: its own memory, and its part of shared memory.

    Pages of files (libraries) are left out: how many of them count for a process depends on what
    else runs on the machine.
    """
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    rows = dict(line.split(":", 1) for line in lines[1:])
    return sum(int(rows[name].split()[0]) for name in ("Pss_Anon", "Pss_Shmem")) * 1024


def cpu_seconds(pid: int) -> float:
    """Return user and system time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def pin(pid: int, cores: set[int]) -> None:
    """Let every thread of a process run on these cores only."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)


def _name(pid: int) -> str:
    """Return the model that a Python backend's process runs, else the program or its role."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    if words[0].endswith(_STUB):
        # argv: stub, model.py of the model, shared memory's name, ...
        return Path(words[1]).parent.parent.name
    if "mm_runtime" in words:
        return words[words.index("mm_runtime") + 1]
    return Path(words[0]).name
