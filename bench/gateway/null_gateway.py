"""A gateway process in front of an engine that costs nothing: what is left is the gateway's own.

    python bench/gateway/null_gateway.py FOLDER [--idle]

prints its port and answers until it is ended. With --idle an answer stops after its first token.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))

import uvloop  # noqa: E402

from mm_runtime.base.heap import return_large_pieces  # noqa: E402
from mm_runtime.gateway.api.finish_reason import FinishReason  # noqa: E402
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text  # noqa: E402
from support.gateways import serve, toy_gateway  # noqa: E402 - the tests' folder is not a package

STREAMS = 4096


class NullEngine:
    """Gives a token whenever it is called."""

    def __init__(self, *, idle: bool) -> None:
        self._idle = idle

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        """Answer with as many tokens as are wanted, each by itself."""
        for number in range(request.max_tokens):
            if number and self._idle:
                await asyncio.Event().wait()
            await asyncio.sleep(0)  # as a token that comes from a socket: others have their turn
            yield Text(" word", 1)
        yield Ended(FinishReason.LENGTH, request.max_tokens)

    async def is_ready(self) -> bool:
        """Say yes."""
        return True


async def run(folder: Path, *, idle: bool) -> None:
    """Serve until the process is ended."""
    plan: dict[str, Any] = {
        "max_concurrency": STREAMS,
        "max_queue_size": STREAMS,
        "max_image_bytes": 4 << 20,
        "max_image_pixels": 50_000_000,
        "request_timeout_seconds": 600,
    }
    async with serve(toy_gateway(folder, NullEngine(idle=idle), **plan)) as running:
        print(running.port, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--idle", action="store_true")
    options = parser.parse_args()
    return_large_pieces()  # as the gateway's own process does
    uvloop.run(run(options.folder, idle=options.idle))
