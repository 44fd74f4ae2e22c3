"""CUDA's Multi-Process Service for the processes of one server: several of them on a GPU at once.

Without it the kernels of two processes take turns (time slices): measured on an H100, encoding
images without pause made a token take 2.0 to 3.0 times as long, and 1.2 to 1.4 times with MPS and
a quarter of the threads for the encoder (bench/sharing). NVIDIA: "Multi-Process Service", CUDA's
documentation.

The daemon belongs to one server: pipe and log folders of its own, the same user, ended with it.
"""

import logging
import os
import shutil
import subprocess
from pathlib import Path
from typing import Self

log = logging.getLogger(__name__)

CONTROL = "nvidia-cuda-mps-control"
COMMAND_SECONDS = 20.0
"""A command to the daemon takes milliseconds; `quit` waits for the server process to end."""


class MpsUnavailableError(Exception):
    """MPS is not available here; the message gives the reason, for log and metric."""


class MpsDaemon:
    """Runs the control daemon while the context is open.

    The path of its folder must stay below 80 characters, because the pipes are Unix sockets.

    Raises:
        MpsUnavailableError: on entering, when the program is missing or does not start.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def environment(self) -> dict[str, str]:
        """What clients need to find this daemon, and the daemon to find its folders."""
        return {
            "CUDA_MPS_PIPE_DIRECTORY": str(self._folder / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(self._folder / "log"),
        }

    def __enter__(self) -> Self:
        program = shutil.which(CONTROL)
        if program is None:
            raise MpsUnavailableError(f"{CONTROL} is not in this image")
        for path in self.environment.values():
            Path(path).mkdir(parents=True, exist_ok=True)
        try:
            started = self._run([program, "-d"])
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MpsUnavailableError(f"{CONTROL} does not start: {error}") from error
        if started.returncode != 0:
            said = (started.stdout + started.stderr).strip() or f"exit code {started.returncode}"
            raise MpsUnavailableError(f"{CONTROL} does not start: {said}")
        log.info("MPS: the control daemon runs in %s", self._folder)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.send_command("quit")
        except MpsUnavailableError as failure:
            log.warning("MPS: the daemon did not stop in time: %s", failure)

    def send_command(self, command: str) -> str:
        """Return what the daemon says to a command; MpsUnavailableError: it does not answer."""
        try:
            done = self._run([CONTROL], command)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MpsUnavailableError(f"{CONTROL} does not answer: {error}") from error
        if done.returncode != 0:
            raise MpsUnavailableError(f"{CONTROL} {command}: {(done.stdout + done.stderr).strip()}")
        return done.stdout

    def clients(self) -> frozenset[int]:
        """Return the ids of the processes that joined; one without MPS is not among them."""
        return frozenset(
            pid
            for server in numbers(self.send_command("get_server_list"))
            for pid in numbers(self.send_command(f"get_client_list {server}"))
        )

    def _run(self, argv: list[str], text: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            argv,
            input=text,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(line) for line in text.splitlines() if line.strip().isdigit())
