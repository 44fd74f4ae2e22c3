"""The cgroup below which every pod of a cluster lives, in each hierarchy of the machine."""

import os
import time
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PROCESSES_WORTH = 4
"""Processes of the machine that a cluster weighs as much as, for each of its CPUs. The kernel's own
default is one for all pods together: beside thirty busy processes they got a thirtieth of the
machine, and their liveness probes failed."""

_SHARES, _WEIGHT, _MOST_WEIGHT = 1024, 100, 10_000
"""For one process: cpu.shares of cgroup v1, cpu.weight of v2 and its upper bound."""
REMOVE_TIMEOUT = 10.0  # seconds; the kernel empties groups of killed processes in the background


def is_unified() -> bool:
    """Return whether the machine has cgroup v2 alone. A hybrid one counts as v1."""
    return (CGROUPS / "cgroup.controllers").exists()


def cgroup_name(cluster: str) -> str:
    """Return the name of a cluster's cgroup."""
    return f"mm-devcluster-{cluster}"


def make_cgroup(name: str) -> None:
    """Make the cgroup in every hierarchy, with all cpus and memory nodes of the machine."""
    for top in _hierarchies():
        if is_unified():
            _delegate(top)
        group = top / name
        group.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            # A cpuset group (v1) starts empty and takes no process until it was filled.
            inherited, own = top / setting, group / setting
            if not is_unified() and inherited.exists() and own.exists():
                own.write_text(inherited.read_text())
        if is_unified():
            _delegate(group)
        _weigh(group)


def remove_cgroup(name: str) -> None:
    """Remove the cgroup and all below it, deepest first; its processes are dead already.

    Raises:
        OSError: A group is still busy after the time limit.
    """
    deadline = time.monotonic() + REMOVE_TIMEOUT
    for top in _hierarchies():
        while (top / name).is_dir():
            try:
                _remove_tree(top / name)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def cgroup_processes(name: str) -> set[int]:
    """Return the processes in the cgroup and below it."""
    found: set[int] = set()
    for top in _hierarchies():
        for listing in (top / name).rglob("cgroup.procs"):
            with suppress(OSError):  # the group went away meanwhile
                found.update(int(pid) for pid in listing.read_text().split())
    return found


def _hierarchies() -> list[Path]:
    if is_unified():
        return [CGROUPS]
    # Linked names (cpu -> cpu,cpuacct) are the same hierarchy twice. A hybrid machine's unified
    # one has no controllers, but runc makes its groups there, too.
    return [
        path
        for path in sorted(CGROUPS.iterdir())
        if path.is_dir() and not path.is_symlink() and (path / "cgroup.procs").exists()
    ]


def _delegate(group: Path) -> None:
    available = (group / "cgroup.controllers").read_text().split()
    for controller in available:
        with suppress(OSError):  # some cannot be passed on, such as rdma in a container
            (group / "cgroup.subtree_control").write_text(f"+{controller}")


def _weigh(group: Path) -> None:
    """Give the pods of a cluster the weight of a machine beside this one's processes."""
    processes = PROCESSES_WORTH * (os.cpu_count() or 1)
    shares, weight = group / "cpu.shares", group / "cpu.weight"
    if shares.exists():
        shares.write_text(str(_SHARES * processes))
    elif weight.exists():
        weight.write_text(str(min(_WEIGHT * processes, _MOST_WEIGHT)))


def _remove_tree(group: Path) -> None:
    for child in group.iterdir():
        if child.is_dir():
            _remove_tree(child)
    group.rmdir()
