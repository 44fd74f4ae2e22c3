"""Keeps what this process knows from programs that it starts and that run as the same user."""

import ctypes
import os
import sys

from mm_runtime.errors import PermanentError

_PR_SET_DUMPABLE = 4
"""Number of the request in linux/prctl.h."""


def hide_from_children() -> None:
    """Close /proc/PID/environ, /proc/PID/mem and ptrace of this process to its own user.

    An environment that was cleaned for a child stands in full in its parent's /proc/PID/environ:
    Linux keeps there what the process was started with. A process that is not dumpable belongs to
    root there, and only CAP_SYS_PTRACE, which no pod of ours has, opens it. The flag is this
    process's alone: a child has it again from its own exec on.

    Raises:
        PermanentError: the kernel refuses.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise PermanentError(
            "the kernel does not protect this process's environment from build steps"
            f" (PR_SET_DUMPABLE: {os.strerror(ctypes.get_errno())}): run it on a kernel that"
            " allows prctl, or without a seccomp profile that refuses it."
        )
