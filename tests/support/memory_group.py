"""Processes below a memory limit that the kernel holds them to, as it does with a container."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mm_devcluster.node.cgroups import CGROUPS, is_unified
from support.eventually import eventually


@dataclass(frozen=True)
class MemoryGroup:
    """A cgroup with a memory limit."""

    path: Path

    @property
    def most_bytes(self) -> int:
        """What its processes took at any time, by the kernel's own count."""
        name = "memory.peak" if is_unified() else "memory.max_usage_in_bytes"
        return int((self.path / name).read_text())

    @property
    def killed(self) -> int:
        name = "memory.events" if is_unified() else "memory.oom_control"
        counts = dict(line.split() for line in (self.path / name).read_text().splitlines())
        return int(counts["oom_kill"])

    def add(self, pid: int) -> None:
        (self.path / "cgroup.procs").write_text(str(pid))


@contextmanager
def memory_group(name: str, limit_bytes: int) -> Iterator[MemoryGroup | None]:
    """Make a cgroup and remove it with the block, whose processes have ended by then.

    Yields:
        None where this user may make none.
    """
    top = CGROUPS if is_unified() else CGROUPS / "memory"
    group = MemoryGroup(top / f"{name}-{os.getpid()}")
    made = False
    with suppress(OSError):
        if is_unified():
            (top / "cgroup.subtree_control").write_text("+memory")
        group.path.mkdir()
        made = True
        limit = "memory.max" if is_unified() else "memory.limit_in_bytes"
        (group.path / limit).write_text(str(limit_bytes))
    if not made:
        yield None
        return
    try:
        yield group
    finally:

        def removed() -> bool:
            group.path.rmdir()  # the kernel empties it in the background
            return True

        eventually(removed)
