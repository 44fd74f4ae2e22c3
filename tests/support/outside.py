"""What ends a container without asking it: the kernel, a dying node. Sent from this machine.

The node of a development cluster is a namespace of this machine, so its processes are ours to see.
"""

import os
import signal
from pathlib import Path
from typing import Any


def kill_container(pod: dict[str, Any], program: str) -> None:
    """Send SIGKILL to the process that a container of a pod was started with.

    Args:
        pod: the pod as the API server holds it.
        program: a word of the process's command line, to tell containers of a pod apart.

    Raises:
        AssertionError: no such process runs on this machine.
    """
    uid = pod["metadata"]["uid"]
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and _is_first(process, uid, program):
            os.kill(int(process.name), signal.SIGKILL)
            return
    raise AssertionError(f"{program} of pod {pod['metadata']['name']} runs not on this machine")


def kill_in_pod(pod: dict[str, Any], program: str) -> None:
    """Send SIGKILL to a process of a pod, whoever started it.

    Args:
        pod: the pod as the API server holds it.
        program: a word of its command line.

    Raises:
        AssertionError: no such process runs on this machine.
    """
    uid = pod["metadata"]["uid"]
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and _has(process, uid, program):
            os.kill(int(process.name), signal.SIGKILL)
            return
    raise AssertionError(f"{program} of pod {pod['metadata']['name']} runs not on this machine")


def _has(process: Path, pod_uid: str, program: str) -> bool:
    """Tell whether a process is of the pod and has a word on its command line."""
    try:
        if pod_uid not in (process / "cgroup").read_text():
            return False
        return program in (process / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return False  # it has just ended


def _is_first(process: Path, pod_uid: str, program: str) -> bool:
    """Tell whether a process is of the pod and its parent, the container's shim, is not."""
    try:
        if pod_uid not in (process / "cgroup").read_text():
            return False
        status = dict(
            line.split(":", 1) for line in (process / "status").read_text().splitlines() if line
        )
        parent = Path("/proc") / status["PPid"].strip()
        if pod_uid in (parent / "cgroup").read_text():
            return False
    except OSError:
        return False  # it has just ended
    return _has(process, pod_uid, program)
