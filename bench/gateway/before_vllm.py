"""What does the gateway add before a vLLM that computes nothing, in one run, on a processor?

    python bench/gateway/before_vllm.py
    python bench/gateway/before_vllm.py --against 7f0d901d

The server reads a request as vLLM does (JSON, base64, Pillow) and answers at once. Requests go to
it directly and through the gateway, in turn; with `--against` through another commit's, too. Each
image is new; the model is a small Qwen2.5-VL, which takes images in their own size.

- `first_text_ms`: p10 and p50 of the milliseconds to the first text, by way; `added_ms`: the median
  of what two requests in turn differ by, `least_added_ms` its p10. Of the process, for a request:
  `cpu_ms`, its own and with its decoders', and `waits`, how often one of its threads gave its core
  away. They say more than the clock where others use the cores, too.
- `streams`: 32 clients with answers of 128 tokens, a token for all of them every 7.5 ms, as a 7 B
  model has it: tokens a second, and processor time of the gateway for a token.

Writes bench/gateway/results/before_vllm.json.
"""

import argparse
import asyncio
import base64
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from checkouts import ROOT, checked_out, environment
from own_cost import SETTLED_SECONDS, exact_ms, tenth
from PIL import Image
from stream_client import StreamClient

sys.path += [str(ROOT / one) for one in ("tests", "bench/gpu", "bench/runtime")]

import sites
from checkpoints import write_checkpoint
from questions import body_of, new_image
from token_path import Seen, query

from support.ended import kill_tree
from support.ports import free_ports
from support.real_gateway import QUICK_GATEWAY
from support.tied import tied

RESULTS = Path(__file__).parent / "results" / "before_vllm.json"
GPU = "NVIDIA-H200"
TEXT = "text"
WARM, STREAMS, TOKENS, STEP_SECONDS, READY_SECONDS = 5, 32, 128, 0.0075, 120


def event(**choice: Any) -> bytes:
    """Return an event as vLLM writes it."""
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
    return b"data: %s\n\n" % json.dumps(chunk | choice, separators=(",", ":")).encode()


def said(delta: dict[str, str], **more: Any) -> bytes:
    """Return an event of the only choice."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, **more}
    return event(choices=[choice])


async def requested(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> dict[str, Any] | None:
    """Return the next request of a connection; None: it was no POST, and is answered."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if head.startswith(b"get"):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        return None
    parts = []
    if b"chunked" in head:
        while size := int(await reader.readline(), 16):
            parts.append(await reader.readexactly(size))
            await reader.readexactly(2)
        await reader.readexactly(2)
    else:
        length = int(head.split(b"content-length: ")[1].split()[0])
        parts.append(await reader.readexactly(length))
    request: dict[str, Any] = json.loads(b"".join(parts))
    return request


class Server:
    """vLLM without a model."""

    def __init__(self) -> None:
        self._step = asyncio.Event()

    async def run(self, port: int) -> None:
        """Serve until the process ends; all streams get a token at a time."""
        await asyncio.start_server(self._connected, "127.0.0.1", port, limit=1 << 26)
        while True:
            step, self._step = self._step, asyncio.Event()
            await self._wait()
            step.set()

    async def _wait(self) -> None:
        """Wait as long as a step takes."""
        await asyncio.sleep(STEP_SECONDS)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await self._exchange(reader, writer)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (request := await requested(reader, writer)) is None:
            return
        content = request["messages"][-1]["content"]
        for part in content if isinstance(content, list) else ():
            if part["type"] == "image_url":
                _, _, file = part["image_url"]["url"].partition(",")
                Image.open(io.BytesIO(base64.b64decode(file))).convert("RGB")
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )

        def send(*events: bytes) -> None:
            for one in events:
                writer.write(b"%x\r\n%s\r\n" % (len(one), one))

        send(said({"role": "assistant", "content": ""}))
        tokens = request["max_tokens"]
        for at in range(tokens):
            if at or tokens == TOKENS:
                await self._step.wait()
            send(said({"content": f" word{at}"}, token_ids=[at]))
        send(said({"content": ""}, finish_reason="length"))
        usage = {"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": 9 + tokens}
        send(event(choices=[], usage=usage), b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")


@contextmanager
def process(command: list[str], log: Path, **changed: Any) -> Iterator[psutil.Process]:
    """Run a process until the block ends."""
    with log.open("wb") as output:
        started = subprocess.Popen(tied(command), stdout=output, stderr=output, **changed)
        try:
            yield psutil.Process(started.pid)
        finally:
            kill_tree(started)


def ready(port: int, path: str, log: Path) -> None:
    """Return when a server answers.

    Raises:
        TimeoutError: it does not.
    """
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            client = HTTPConnection("127.0.0.1", port, timeout=5)
            client.request("GET", path)
            if client.getresponse().status == HTTPStatus.OK:
                return
        time.sleep(0.2)
    raise TimeoutError(log.read_text()[-2000:])


def spent(process: psutil.Process) -> np.ndarray[Any, Any]:
    """Return processor time, that with its decoders, and how often its threads have waited."""
    own = exact_ms(process)
    threads = (psutil.Process(one.id) for one in process.threads())
    waits = sum(one.num_ctx_switches().voluntary for one in threads)
    return np.array([own, own + sum(map(exact_ms, process.children())), waits])


def first_texts(
    ways: dict[str, int],
    processes: dict[str, psutil.Process],
    size: tuple[int, int] | None,
    requests: int,
) -> dict[str, Any]:
    """Return milliseconds to the first text, a request of each way in turn; no size: of a text."""
    seen = {way: Seen() for way in ways}
    work = {way: np.zeros(3) for way in ways}
    clients = {way: HTTPConnection("127.0.0.1", port, timeout=60) for way, port in ways.items()}
    for turn in range(WARM + requests):
        for way, client in clients.items():
            body = body_of("bench", new_image(*size) if size else None, 2)
            before = spent(processes[way])
            query(client, body, Seen() if turn < WARM else seen[way])
            time.sleep(SETTLED_SECONDS)
            if turn >= WARM:
                work[way] += spent(processes[way]) - before
    found = {}
    for way, one in seen.items():
        added = [a - b for a, b in zip(one.firsts, seen["direct"].firsts, strict=True)]
        own, all_of_them, waits = (work[way] / requests).tolist()
        found[way] = {
            "p10": round(tenth(one.firsts), 2),
            "p50": round(statistics.median(one.firsts), 2),
            "added_ms": round(statistics.median(added), 2),
            "least_added_ms": round(tenth(added), 2),
            "cpu_ms": round(own, 2),
            "cpu_ms_with_decoders": round(all_of_them, 2),
            "waits": round(waits, 1),
        }
    return found


async def streams(port: int) -> tuple[float, int]:
    """Return seconds and tokens of one answer to each of the clients."""
    clients = [await StreamClient.open(f"http://127.0.0.1:{port}") for _ in range(STREAMS)]
    body = body_of("bench", None, TOKENS).encode()
    began = time.perf_counter()
    found = await asyncio.gather(*(client.pieces(body) for client in clients))
    seconds = time.perf_counter() - began
    for client in clients:
        client.close()
    return seconds, sum(map(len, found))


def of_streams(
    ways: dict[str, int], processes: dict[str, psutil.Process], rounds: int
) -> dict[str, Any]:
    """Return what each way carries, and the gateway's work for a token."""
    rows: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for turn in range(rounds + 1):
        for way, port in ways.items():
            before = exact_ms(processes[way])
            seconds, tokens = asyncio.run(streams(port))
            spent = exact_ms(processes[way]) - before
            if turn:
                rows[way].append((tokens / seconds, spent / tokens * 1e3))
    return {
        way: {
            "tokens_per_second": round(max(rate for rate, _ in found), 1),
            "cpu_us_a_token": round(min(spent for _, spent in found), 1),
        }
        for way, found in rows.items()
    }


def made_site(folder: Path) -> Path:
    """Return a folder with an engine and its serving plan, made unless it is there."""
    if not folder.is_dir():
        sites.product = lambda: GPU  # the plan is for one, and none computes
        checkpoint = write_checkpoint(folder.with_name("checkpoint"), "qwen-toy", device="cpu")
        engine = {"backend": "VLLM", "maxBatchSize": STREAMS, "maxImagesPerRequest": 1}
        spec = {
            "engine": {**engine, "maxSeqLen": 2048},
            "runtime": {"vllmVersion": "0.26.0"},
            "build": {"evaluation": "Off"},
        }
        sites.make_site(folder, checkpoint, device="CUDA", spec=spec)
    return folder


def measured(
    folder: Path, site: Path, size: tuple[int, int] | None, options: Any
) -> dict[str, Any]:
    """Measure one engine."""
    (manifest,) = site.glob("store/engines/*/manifest.json")
    checkouts = {"gateway": ROOT}
    if options.against:
        checkouts[options.against] = checked_out(options.against, folder)
    server, *fronts = free_ports(1 + len(checkouts))
    ways = dict(zip(("direct", *checkouts), (server, *fronts), strict=True))
    with ExitStack() as stack:
        log = folder / "server.log"
        command = [sys.executable, __file__, "--serve", str(server)]
        processes = {"direct": stack.enter_context(process(command, log))}
        ready(server, "/health", log)
        for way, checkout in checkouts.items():
            log = folder / f"{way}.log"
            command = [*QUICK_GATEWAY, "gateway", "--manifest", str(manifest)]
            command += ["--serving", str(site / "serving.json"), "--port", str(ways[way])]
            command += ["--openai-server", f"127.0.0.1:{server}", "--server-metrics", ""]
            env = os.environ | environment(checkout)
            processes[way] = stack.enter_context(process(command, log, env=env))
            ready(ways[way], "/readyz", log)
        found = {"first_text_ms": first_texts(ways, processes, size, options.requests)}
        if options.rounds:
            found["streams"] = of_streams(ways, processes, options.rounds)
        return found


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=[TEXT, "336x336", "1280x720"])
    parser.add_argument("--site", type=Path, help="folder of the engine, kept")
    parser.add_argument("--against", help="another commit")
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", type=int, help="be the server at this port")
    options = parser.parse_args()
    if options.serve:
        asyncio.run(Server().run(options.serve))
    found: dict[str, Any] = {"cores": os.cpu_count(), "load_before": round(os.getloadavg()[0], 1)}
    with tempfile.TemporaryDirectory() as temporary:
        site = made_site(options.site or Path(temporary) / "site")
        for size in options.sizes:
            folder = Path(temporary) / size
            folder.mkdir()
            pair = None
            if size != TEXT:
                width, height = map(int, size.split("x"))
                pair = (width, height)
            found[size] = measured(folder, site, pair, options)
    print(json.dumps(found, indent=1))
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
