"""Gateways and routers as processes of their own, which a test may kill with SIGKILL.

    python -m support.toy_processes gateway FOLDER LOG
    python -m support.toy_processes router ADDRESS...

Each prints its port when it listens. A gateway answers from a script, writes the prompt of each
request to its log before the first token, and waits between tokens.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from mm_router.catalog import Model
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from support.ended import end
from support.gateways import MODEL, serve, toy_gateway
from support.routers import route
from support.scripted_engine import ScriptedEngine
from support.tied import tied

TESTS = Path(__file__).resolve().parent.parent
START_SECONDS = 60

PLAN: dict[str, Any] = {"max_concurrency": 64, "max_queue_size": 256}
FIRST_TOKEN_SECONDS, TOKEN_SECONDS = 0.3, 0.1
PIECES = ("a", " red", " square", " and", " a", " blue", " circle")


class SlowEngine(ScriptedEngine):
    """Writes each prompt down, waits for the first token, and between tokens."""

    def __init__(self, log: Path) -> None:
        super().__init__(pieces=PIECES)
        self._log = log

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"{request.prompt!r}\n")
        await asyncio.sleep(FIRST_TOKEN_SECONDS)
        async for piece in super().generate(request):
            yield piece
            await asyncio.sleep(TOKEN_SECONDS)


@dataclass(frozen=True)
class Toy:
    """A process that listens."""

    process: subprocess.Popen[bytes]
    address: str

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(START_SECONDS)


@contextmanager
def started(*arguments: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "support.toy_processes", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    pipe = subprocess.PIPE
    with subprocess.Popen(tied(command), stdin=pipe, stdout=pipe, env=environment) as process:
        try:
            yield process
        finally:
            end(process)


def listening(process: subprocess.Popen[bytes]) -> Toy:
    """Return a process once it listens; it is ended, or ends by itself, at the test's deadline."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the process ended with code {process.wait(START_SECONDS)}")
    return Toy(process, f"127.0.0.1:{int(line)}")


async def _gateway(folder: Path, log: Path) -> None:
    async with serve(toy_gateway(folder, SlowEngine(log), **PLAN)) as gateway:
        await _forever(gateway.port)


async def _router(addresses: Sequence[str]) -> None:
    async with route({Model("blue", MODEL): addresses}) as router:
        await _forever(router.port)


async def _forever(port: int) -> None:
    print(port, flush=True)  # noqa: T201  # what the starter reads
    await asyncio.Event().wait()


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    match kind:
        case "gateway":
            uvloop.run(_gateway(Path(rest[0]), Path(rest[1])))
        case _:
            asyncio.run(_router(rest))
