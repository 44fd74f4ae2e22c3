"""`mm-runtime serve` with the real tritonserver, on free ports, ended with its test."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from support.ended import kill_tree
from support.ports import free_ports
from support.tied import tied

STARTUP_SECONDS = 180
"""Ready takes 6 s on a quiet machine; torch's imports share two cores with other tests."""

STOP_SECONDS = 60

PROGRAM = (sys.executable, "-m", "mm_runtime")


@dataclass(frozen=True)
class EngineFiles:
    """A built engine and a plan to serve it."""

    manifest: Path
    serving: Path


@dataclass(frozen=True)
class Served:
    """One running `mm-runtime serve`."""

    process: "subprocess.Popen[bytes]"
    http: int
    grpc: int
    metrics: int
    folder: Path
    log_file: Path

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.http}"

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self.metrics}"

    @property
    def grpc_url(self) -> str:
        return f"127.0.0.1:{self.grpc}"

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    @property
    def server_pid(self) -> int:
        pid = self.process.pid
        (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(child)

    def ready(self) -> bool:
        try:
            return httpx.get(f"{self.http_url}/v2/health/ready", timeout=5).is_success
        except httpx.TransportError:
            return False

    def wait_until_ready(self, starts: int = 1) -> None:
        """Wait until Triton is ready and the command knows it; fail with the log when it ends."""
        deadline = time.monotonic() + STARTUP_SECONDS
        while not (self.log.count("ready after") >= starts and self.ready()):
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.1)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        return self.process.wait(STOP_SECONDS)


@contextmanager
def start_serving(
    manifest: Path,
    serving: Path,
    *arguments: str,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] = PROGRAM,
) -> Iterator[Served]:
    http, grpc, metrics = free_ports(3)
    with ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="served-")))
        log_file = folder / "serve.log"
        command = [*program, "serve"]
        command += ["--manifest", str(manifest), "--serving", str(serving)]
        command += ["--repository", str(folder / "repository"), "--http-port", str(http)]
        command += ["--grpc-port", str(grpc), "--metrics-port", str(metrics)]
        if "--gateway-port" not in arguments:
            command += ["--gateway-port", "0"]
        output = stack.enter_context(log_file.open("wb"))
        process = subprocess.Popen(
            tied([*command, *arguments]),
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment or os.environ),
        )
        try:
            yield Served(process, http, grpc, metrics, folder, log_file)
        finally:
            kill_tree(process)
