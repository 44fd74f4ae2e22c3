"""The real pair of a pod: `mm-runtime serve` (tritonserver) and `mm-runtime gateway`, as processes.

Both are started from an engine directory on free ports of loopback, have a deadline, and are ended
by their process ids.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import httpx

from mm_api.documents.serving_plan import ServingPlan
from support.ended import kill_tree
from support.memory_group import MemoryGroup
from support.name_server import NameServer
from support.ports import free_ports
from support.tied import tied
from support.tiny_llava import BuiltEngine

READY_SECONDS = 240
"""Ready takes 6 s on a quiet machine."""

_MEASURED = re.compile("work was measured in|what work costs was not measured")
"""The gateway's line, the last of its start."""

PROGRAM = (sys.executable, "-m", "mm_runtime")
QUICK_GATEWAY = (sys.executable, "-P", str(Path(__file__).with_name("quick_gateway.py")))
"""Without `-P` the modules beside it would hide packages of their names."""


@dataclass
class RealGateway:
    """A gateway in front of a real Triton."""

    url: str
    triton: str
    triton_grpc: str
    model: str
    gateway: subprocess.Popen[bytes]
    server: subprocess.Popen[bytes]
    gateway_log: Path
    server_log: Path
    start_server: Callable[[], subprocess.Popen[bytes]]

    def restart_server(self) -> None:
        self.server = self.start_server()

    def triton_metrics(self) -> str:
        return httpx.get(f"{self.triton}/metrics", timeout=60).text

    def stop(self, process: subprocess.Popen[bytes], seconds: float = 60) -> int:
        process.send_signal(signal.SIGTERM)
        return process.wait(seconds)


@contextmanager
def run_pair(
    engine: BuiltEngine,
    folder: Path,
    *,
    group: MemoryGroup | None = None,
    names: NameServer | None = None,
    program: Sequence[str] | None = None,
    awaited: bool = True,
    **gateway_plan: object,
) -> Iterator[RealGateway]:
    """Run server and gateway until the block ends.

    Args:
        engine: what is served.
        folder: for documents and logs.
        group: which the gateway runs in, from its first moment.
        names: which the gateway queries; None: this machine's.
        program: of both, the words in front of those of `mm-runtime`; None: the gateway measures
            what work costs in one round.
        awaited: it must become ready before the block begins.
        gateway_plan: replaces limits.
    """
    serving = ServingPlan.from_json(engine.serving.read_bytes())
    plan = serving.gateway.model_copy(update=gateway_plan)
    path = folder / "serving.json"
    path.write_text(serving.model_copy(update={"gateway": plan}).to_json())
    http, grpc, metrics, front = free_ports(4)
    documents = ("--manifest", str(engine.manifest), "--serving", str(path))
    with ExitStack() as stack:
        serve = [
            *("serve", *documents, "--repository", str(folder / "triton" / "repository")),
            *("--http-port", str(http), "--grpc-port", str(grpc)),
            *("--metrics-port", str(metrics), "--gateway-port", str(front)),
        ]
        start_server = partial(
            _start, stack, folder / "serve.log", serve, program=program or PROGRAM
        )
        server = start_server()
        gateway = _start(
            stack,
            folder / "gateway.log",
            [
                *("gateway", *documents, "--triton", f"127.0.0.1:{grpc}", "--port", str(front)),
                *("--server-metrics", f"127.0.0.1:{metrics}"),
            ],
            names,
            program=program or QUICK_GATEWAY,
        )
        if group is not None:
            group.add(gateway.pid)
        pair = RealGateway(
            url=f"http://127.0.0.1:{front}",
            triton=f"http://127.0.0.1:{metrics}",
            triton_grpc=f"127.0.0.1:{grpc}",
            model=serving.model,
            gateway=gateway,
            server=server,
            gateway_log=folder / "gateway.log",
            server_log=folder / "serve.log",
            start_server=start_server,
        )
        try:
            if awaited:
                wait_until_ready(pair)
            yield pair
        except Exception as error:
            for log in (pair.server_log, pair.gateway_log):
                error.add_note(f"{log.name} ends with:\n{_tail(log)}")
            raise


@contextmanager
def gateway_before(engine: BuiltEngine, triton: str, folder: Path) -> Iterator[str]:
    documents = ("--manifest", str(engine.manifest), "--serving", str(engine.serving))
    more = ("--triton", triton, "--server-metrics", "")
    with gateway_of((*documents, *more), free_ports(1)[0], folder / "gateway.log") as url:
        yield url


@contextmanager
def gateway_of(
    arguments: Sequence[str], port: int, log: Path, *, awaited: bool = True
) -> Iterator[str]:
    url = f"http://127.0.0.1:{port}"
    with ExitStack() as stack:
        command = ["gateway", *arguments, "--port", str(port)]
        process = _start(stack, log, command, program=QUICK_GATEWAY)
        if awaited:
            _wait_until_answers(url, {process: log})
        yield url


def _start(
    stack: ExitStack,
    log: Path,
    arguments: list[str],
    names: NameServer | None = None,
    *,
    program: Sequence[str],
) -> subprocess.Popen[bytes]:
    output: IO[bytes] = stack.enter_context(log.open("ab"))
    command = [*program, *arguments]
    process = subprocess.Popen(
        tied(command if names is None else names.used_by(command)),
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    stack.callback(kill_tree, process)
    return process


def wait_until_ready(pair: RealGateway) -> None:
    _wait_until_answers(pair.url, {pair.server: pair.server_log, pair.gateway: pair.gateway_log})


def _wait_until_answers(url: str, logs: Mapping[subprocess.Popen[bytes], Path]) -> None:
    """Wait until a gateway, whose log is the last, is ready and does nothing of its own."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        for process, log in logs.items():
            if process.poll() is not None:
                raise RuntimeError(f"{log.name}: exit code {process.returncode}\n{_tail(log)}")
        *_, log = logs.values()
        # Until then it sends requests of its own while no other comes: counters would show them.
        measured = _MEASURED.search(log.read_text(errors="replace"))
        try:
            if httpx.get(f"{url}/readyz", timeout=5).status_code == httpx.codes.OK and measured:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise TimeoutError(f"not ready within {READY_SECONDS} s; {log.name} ends with:\n{_tail(log)}")


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]
