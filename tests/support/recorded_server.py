"""A recorded trtllm-serve on a free port, for gateways that run in the test's own process."""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from support.ports import free_ports
from support.tied import tied
from support.trtllm_pods import VERSION, tool_environment
from support.trtllm_sites import write_model
from support.trtllm_tools.install import install

SECONDS = 120


@dataclass
class RecordedServer:
    """A running server: where it listens, and what it was queried."""

    process: "subprocess.Popen[bytes]"
    address: str
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def requested(self) -> list[dict[str, Any]]:
        return self._lines("request")

    @property
    def prompts(self) -> list[str]:
        return self._lines("prompt")

    def _lines(self, word: str) -> list[Any]:
        mark = f"[TRT-LLM] [I] {word} "
        *complete, _ = self.log.split("\n")  # the last one may be half written
        lines = (line.partition(mark)[2] for line in complete)
        return [json.loads(line) for line in lines if line]


@contextmanager
def recorded_server(
    folder: Path,
    version: str = VERSION,
    options: Mapping[str, Any] | None = None,
) -> Iterator[RecordedServer]:
    tools = install(folder / version, version)
    write_model(folder / "toy", "qwen2-vl")
    (port,) = free_ports(1)
    log_file = folder / "server.log"
    file = folder / "options.yaml"
    file.write_text(json.dumps(dict(options or {})))
    where = ("--port", str(port), "--host", "127.0.0.1", "--extra_llm_api_options", str(file))
    with log_file.open("wb") as output:
        process = subprocess.Popen(
            tied([tools.script("trtllm-serve"), "toy", *where]),
            cwd=folder,
            env=tool_environment(tools),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        server = RecordedServer(process, f"127.0.0.1:{port}", log_file)
        try:
            _wait_until_healthy(server)
            yield server
        finally:
            process.kill()
            process.wait(SECONDS)


def _wait_until_healthy(server: RecordedServer) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            httpx.get(f"http://{server.address}/health", timeout=30).raise_for_status()
        except httpx.TransportError:
            assert server.process.poll() is None, server.log
            assert time.monotonic() < deadline, server.log
            time.sleep(0.05)
        else:
            return
