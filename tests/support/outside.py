"""What ends a container without querying it: the kernel, a dying node. Sent from this machine.

The node of a development cluster is a namespace of this machine, so its processes are ours to see.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil


def kill_container(pod: dict[str, Any], program: str) -> None:
    """Send SIGKILL to the process that a container of a pod was started with."""
    uid = pod["metadata"]["uid"]
    for process in _running(uid, program):
        parent = process.parent()
        if parent is not None and not _is_of(parent, uid):  # the container's shim
            process.kill()
            return
    raise AssertionError(f"{program} of pod {pod['metadata']['name']} runs not on this machine")


def kill_in_pod(pod: dict[str, Any], program: str) -> None:
    """Send SIGKILL to a process of a pod, whatever started it."""
    for process in _running(pod["metadata"]["uid"], program):
        process.kill()
        return
    raise AssertionError(f"{program} of pod {pod['metadata']['name']} runs not on this machine")


def _running(pod_uid: str, program: str) -> Iterator[psutil.Process]:
    """Yield the processes of a pod with a text on their command line, a NUL between words."""
    for process in psutil.process_iter():
        try:
            words = process.cmdline() if _is_of(process, pod_uid) else []
        except psutil.NoSuchProcess:  # it has just ended
            continue
        if program in "\0".join(words):
            yield process


def _is_of(process: psutil.Process, pod_uid: str) -> bool:
    try:
        return pod_uid in Path(f"/proc/{process.pid}/cgroup").read_text()
    except OSError:  # it has just ended
        return False
