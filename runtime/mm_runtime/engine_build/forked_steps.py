"""Steps that share their imports: one process imports torch and transformers, and is forked.

Each step would import them again, for 2 s. The process holds no CUDA context and no secret.
"""

import ctypes
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final, Self

from mm_api.documents.build_plan import BuildPlan
from mm_runtime.base.importing import importing
from mm_runtime.engine_build.step import COMMANDS, Step

IMPORTS: Final = {
    f"{COMMANDS}.export_vision": f"{COMMANDS}.towers.fusing",
    f"{COMMANDS}.evaluation": f"{COMMANDS}.checkpoint_answers",
}
"""Module of a step -> what of its imports takes long."""

_REQUEST_BYTES = 1 << 16
_START_SECONDS = 60.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


def shared_steps(plan: BuildPlan, steps: Sequence[Step]) -> list[Step]:
    """Return the steps that share their imports.

    None does where upstream's tools run, which need all memory that a container has, or where code
    of the checkpoint runs, which could change what the next step finds imported.
    """
    found = [step for step in steps if step.module in IMPORTS]
    tools = any(step.command or step.name == "build-vision" for step in steps)
    return [] if tools or plan.trust_remote_code or len(found) < len(IMPORTS) else found


class ForkedSteps:
    """The process that imports for steps, in their order, while the context is open."""

    def __init__(self, python: str, steps: Sequence[Step], environment: Mapping[str, str]) -> None:
        # Steps are started by a process between, which ends at once: so they are children of this.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_START_SECONDS)
        owned = (shutil.which("setpriv") or "setpriv", "--pdeathsig", "KILL", "--")
        with theirs:
            self._process = subprocess.Popen(
                [*owned, python, "-m", __name__, *(step.module for step in steps)],
                env=dict(environment),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def start(self, argv: Sequence[str], output: int) -> int | None:
        """Start a step that writes into a descriptor; return its number, None: it does not start.

        `argv`: of the step, with an interpreter that is not used.
        """
        try:
            socket.send_fds(self._socket, [json.dumps(argv[2:]).encode()], [output])
            return int(self._socket.recv(_REQUEST_BYTES) or 0) or None
        except OSError:
            return None


def _serve(requests: socket.socket) -> None:
    """Import for one step after the other, and fork for each."""
    build = os.getppid()
    for module in sys.argv[1:]:
        with importing():
            import_module(IMPORTS[module])
        request, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 1)
        if not request:
            return
        between = os.fork()
        if between == 0:
            between = os.getpid()
            if os.fork():
                os._exit(0)
            _become_child_of(build, between)
            _run(json.loads(request), descriptors[0], requests)
            return
        os.close(descriptors[0])
        os.waitpid(between, 0)


def _become_child_of(build: int, between: int) -> None:
    """Make this process lead a group, and end with the build."""
    os.setpgid(0, 0)
    while os.getppid() == between:
        os.sched_yield()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != build:
        os._exit(1)


def _run(arguments: list[str], output: int, requests: socket.socket) -> None:
    requests.send(str(os.getpid()).encode())
    requests.close()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    sys.argv = arguments
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve(socket.socket(fileno=os.dup(0)))
