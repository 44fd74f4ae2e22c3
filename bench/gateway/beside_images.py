"""Does the gateway put image requests in a row? Eight streams beside four image clients.

    python bench/gateway/beside_images.py

The server is vLLM made of sleeps, with what its scheduler does: a step takes 5 ms and 29 for each
image whose prompt is in it, images are prepared one after the other in 10 ms, and the step after
the one that runs is already chosen. Clients are those of bench/runtime/streams_beside_images.py.
Ways are taken in turn. Writes bench/gateway/results/beside_images.json.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from before_vllm import Server, event, made_site, process, ready, requested, said
from questions import new_image
from streams_beside_images import Phase, seen, summary

from support.ports import free_ports
from support.real_gateway import QUICK_GATEWAY

RESULTS = Path(__file__).parent / "results" / "beside_images.json"
STEP_SECONDS, IMAGE_SECONDS, PREPARED_SECONDS = 0.005, 0.029, 0.010
IMAGES_A_SECOND = 60


class Scheduler(Server):
    """A server whose steps hold the prompts of images."""

    def __init__(self) -> None:
        super().__init__()
        self._preparing = asyncio.Lock()
        self._ready: list[asyncio.Event] = []
        self._next: list[asyncio.Event] = []

    async def _wait(self) -> None:
        now, self._next, self._ready = self._next, self._ready, []
        await asyncio.sleep(STEP_SECONDS + IMAGE_SECONDS * len(now))
        for one in now:
            one.set()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (request := await requested(reader, writer)) is None:
            return
        content, tokens = request["messages"][-1]["content"], request["max_tokens"]
        if isinstance(content, list) and any(one["type"] == "image_url" for one in content):
            async with self._preparing:
                await asyncio.sleep(PREPARED_SECONDS)
            prompt = asyncio.Event()
            self._ready.append(prompt)
            await prompt.wait()
        else:
            await self._step.wait()
        if not request.get("stream"):
            message = {"role": "assistant", "content": "a"}
            answer = json.dumps({"choices": [{"index": 0, "message": message}]}).encode()
            head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"
            writer.write(head % len(answer) + answer)
            return
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )

        def send(*events: bytes) -> None:
            for one in events:
                writer.write(b"%x\r\n%s\r\n" % (len(one), one))

        send(said({"role": "assistant", "content": ""}))
        for at in range(tokens):
            if at:
                await self._step.wait()
            send(said({"content": f" word{at}"}, token_ids=[at]))
        send(said({"content": ""}, finish_reason="length"))
        usage = {"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": 9 + tokens}
        send(event(choices=[], usage=usage), b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")


def measured(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return what clients see of both ways."""
    (manifest,) = made_site(options.site or folder / "site").glob("store/engines/*/manifest.json")
    serving, log = manifest.parents[3] / "serving.json", folder / "log"
    server, front = free_ports(2)
    gateway = [*QUICK_GATEWAY, "gateway", "--manifest", str(manifest), "--serving", str(serving)]
    gateway += ["--port", str(front), "--openai-server", f"127.0.0.1:{server}"]
    ways = {"direct": server, "gateway": front}
    rounds: dict[str, list[tuple[Phase, Phase]]] = {way: [] for way in ways}
    with ExitStack() as stack:
        stack.enter_context(process([sys.executable, __file__, "--serve", str(server)], log))
        ready(server, "/health", log)
        stack.enter_context(process([*gateway, "--server-metrics", ""], folder / "gateway.log"))
        ready(front, "/readyz", folder / "gateway.log")
        time.sleep(1)
        for turn in range(options.rounds):
            for way in list(ways)[:: -1 if turn % 2 else 1]:
                images = [new_image(336) for _ in range(int(IMAGES_A_SECOND * options.seconds))]
                pair: Any = SimpleNamespace(url=f"http://127.0.0.1:{ways[way]}", model="bench")
                rounds[way] += seen(pair, images, 1, options.seconds)
    return {way: summary(one, options.seconds) for way, one in rounds.items()}


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, help="folder of the engine, kept")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--serve", type=int, help="be the server at this port")
    options = parser.parse_args()
    if options.serve:
        asyncio.run(Scheduler().run(options.serve))
    found: dict[str, Any] = {"cores": os.cpu_count(), "load_before": round(os.getloadavg()[0], 1)}
    with tempfile.TemporaryDirectory() as temporary:
        found |= measured(Path(temporary), options)
    print(json.dumps(found, indent=1))
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
