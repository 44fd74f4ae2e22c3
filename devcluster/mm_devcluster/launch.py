"""Start a cluster's first process, and remove an entire cluster again."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mm_devcluster.errors import PartFailedError
from mm_devcluster.layout import Layout
from mm_devcluster.node.cgroups import remove_cgroup
from mm_devcluster.node.link import remove_link
from mm_devcluster.processes import Process, children_of, find_process, kill_and_wait
from mm_devcluster.record import Record
from mm_devcluster.supervisor.children import SYSTEM_PATH

LAUNCH_TIMEOUT = 10.0  # seconds for unshare to make its namespaces
STDERR = 2
STOP_TIMEOUT = 60.0  # seconds; 2 to 4 idle, 21 measured on a busy machine

NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def launch_supervisor(
    layout: Layout, *, in_namespaces: bool, kept: Sequence[int]
) -> tuple[Process, Process]:
    """Start the supervisor in a session of its own.

    Args:
        layout: Where its specification and log lie.
        in_namespaces: Whether it becomes PID 1 of a node.
        kept: Descriptors of leases that live as long as it does.

    Returns:
        The process started, and the supervisor; the same one without namespaces.

    Raises:
        PartFailedError: It ended at once; its log is in the message.
    """
    supervisor = [sys.executable, "-P", "-m", "mm_devcluster.supervisor"]
    command = [*supervisor, str(layout.supervisor_spec)]
    if in_namespaces:
        command = ["/usr/bin/unshare", *NAMESPACES, *command]
    launched = spawn(command, layout.logs / "supervisor.log", kept)
    if not in_namespaces:
        return launched, launched
    try:
        return launched, _await_init(launched, layout)
    except BaseException:
        # It is recorded nowhere yet.
        kill_and_wait(launched, LAUNCH_TIMEOUT)
        raise


def spawn(command: Sequence[str], log: Path, kept: Sequence[int] = ()) -> Process:
    """Start a program that outlives us: own session, output to a file, a clean environment.

    Descriptors that we inherited are closed: a lock or a pipe of who started us would last as long
    as the program.
    """
    for descriptor in kept:
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - takes no keyword
    # GOGC: a bench trades the control plane's memory for its share of the cores.
    passed = ("MM_CACHE_DIR", "MM_STATE_DIR", "HOME", "GOGC")
    environment = {key: os.environ[key] for key in passed if key in os.environ}
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        pid = os.posix_spawn(
            command[0],
            list(command),
            {**environment, "PATH": SYSTEM_PATH},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
                *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in _inherited(kept)),
            ],
            setsid=True,
            setsigmask=(),
        )
    finally:
        os.close(output)
        for descriptor in kept:
            os.set_inheritable(descriptor, False)  # noqa: FBT003 - takes no keyword
    process = find_process(pid)
    return process if process is not None else Process(pid, 0)


def stop(record: Record) -> None:
    """End every process of a cluster.

    Raises:
        PartFailedError: One is still there; nothing that it uses was removed.
    """
    for process, number in ((record.supervisor, signal.SIGTERM), (record.launched, signal.SIGKILL)):
        if process is None or not process.alive:
            continue
        # PID 1 of a node takes everything in its PID namespace with it, containers too, but only
        # when it is killed: a TERM would leave the containers' own order of ending to chance.
        process.signal(number if record.control_plane_only else signal.SIGKILL)
        if not process.wait(STOP_TIMEOUT / 4) and not kill_and_wait(process, STOP_TIMEOUT):
            what = f"process {process.pid} of cluster {record.name!r} did not end"
            raise PartFailedError(what, STOP_TIMEOUT, "")


def remove(record: Record, layout: Layout) -> None:
    """Remove what a stopped cluster leaves on the machine: interface, cgroups, directory."""
    if record.interface:
        remove_link(record.interface)
    if record.cgroup:
        remove_cgroup(record.cgroup)
    _delete_tree(layout.root)


def _inherited(kept: Sequence[int]) -> list[int]:
    """Return the descriptors above standard error, less those kept, that a new program gets."""
    inherited = []
    for descriptor in sorted(int(file.name) for file in Path("/proc/self/fd").iterdir()):
        # The one that lists the folder is closed by now.
        with suppress(OSError):
            if descriptor > STDERR and descriptor not in kept and os.get_inheritable(descriptor):
                inherited.append(descriptor)
    return inherited


def _await_init(launched: Process, layout: Layout) -> Process:
    """Wait until unshare's child has become the supervisor."""
    deadline = time.monotonic() + LAUNCH_TIMEOUT
    while launched.alive and time.monotonic() < deadline:
        for pid in children_of(launched.pid):
            child = find_process(pid)
            # unshare forks into the new PID namespace, then the child executes Python.
            if child is not None and _is_supervisor(pid):
                return child
        time.sleep(0.01)
    evidence = log_tail(layout.logs / "supervisor.log")
    raise PartFailedError("the node's namespaces could not be made", LAUNCH_TIMEOUT, evidence)


def _delete_tree(directory: Path) -> None:
    for last in (False, False, True):
        if directory.exists():
            shutil.rmtree(directory, ignore_errors=not last)


def log_tail(log: Path) -> str:
    """Return the end of a log file, for an error message."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return f"(no log at {log})"
    return f"{log}:\n" + "\n".join(text.splitlines()[-15:])


def _is_supervisor(pid: int) -> bool:
    try:
        return b"mm_devcluster.supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
