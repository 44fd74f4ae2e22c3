"""`mmctl ask NAME --text TEXT --image FILE`: one question to a model, and its answer."""

import argparse
import asyncio
import json
import os
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from mm_api.contract import GATEWAY_PORT, HTTP_PORT
from mm_ctl.connection import add_model_option, connection, kubectl_options
from mm_ctl.documents import UsageError, http_url
from mm_ctl.question import NUMBERS, TRITON_MODELS, read_file, request_of, text_of
from mm_operator import names
from mm_operator.errors import ClusterError

OPENAI = "openai"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command: those of client.py by its names."""
    add = parser.add_argument
    add("--text", default="", help="the question; --audio without one is transcribed")
    add("--image", action="append", default=[], help="files or URLs, separated by commas")
    add("--video", help="file or URL")
    add("--video_num_frames", type=int, help="number of frames to use")
    add("--fps", type=float, help="frames to use for each second")
    add("--audio", help="file")
    add("--protocol", choices=[OPENAI, *TRITON_MODELS], default=OPENAI)
    add("--streaming", action="store_true", help="print the answer as it is generated")
    add("--latency", action="store_true", help="print as NVIDIA's client.py does")
    add(
        "--request-output-len",
        dest="max_tokens",
        type=int,
        default=16,
        help="most tokens of the answer; default: 16",
    )
    for name, kind in NUMBERS.items():
        flags = dict.fromkeys((f"--{name.replace('_', '-')}", f"--{name}"))
        add(*flags, type=kind, default=1 if name == "top_k" else None)
    add(
        "--address",
        help="URL of a gateway, router or Triton; default: kubectl port-forward to a pod",
    )
    add("--timeout", type=float, default=300.0, help="seconds to wait for the answer")
    add_model_option(parser)


async def run(options: argparse.Namespace) -> int:
    """Send it, and print the answer. The token is OPENAI_API_KEY, as for OpenAI's client."""
    sent = request_of(options) if options.text else _recording(options)
    async with session_of(options) as session:
        began = time.perf_counter()
        async for piece in answer(options, session, *sent):
            if options.streaming:
                shown = ("[beam 0 ]: ", piece) if options.latency else (piece,)
                print(*shown, end="\n" if options.latency else "", flush=True)
            else:
                print(f"[beam 0 ]:\n{piece}" if options.latency else piece)
        if options.latency:
            print(f"[INFO] Latency: {round((time.perf_counter() - began) * 1000, 3)} ms")
        elif options.streaming:
            print()
    return 0


@asynccontextmanager
async def session_of(options: argparse.Namespace) -> AsyncIterator[aiohttp.ClientSession]:
    """Yield a client of the model's server; ClusterError: what it was used for failed."""
    token = os.environ.get("OPENAI_API_KEY")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    limit = aiohttp.ClientTimeout(total=options.timeout)
    try:
        async with (
            _address(options) as address,
            aiohttp.ClientSession(address, headers=headers, timeout=limit) as session,
        ):
            yield session
    except (aiohttp.ClientError, OSError, ValueError) as error:
        said = str(error) or f"none within --timeout {options.timeout:g}"
        raise ClusterError(0, options.protocol, options.name, said) from error


async def answer(
    options: argparse.Namespace, session: aiohttp.ClientSession, path: str, body: Any
) -> AsyncIterator[str]:
    """Send a request and yield the pieces of its answer: one, where they are not streamed."""
    sent = {"data" if isinstance(body, aiohttp.FormData) else "json": body}
    async with session.post(path, **sent) as response:
        if options.streaming and response.ok:
            async for line in response.content:
                event = line.decode().removeprefix("data:").strip()
                if event.startswith("{"):
                    yield text_of(json.loads(event), options.name)
        else:
            said = await response.text()
            found = json.loads(said) if said.startswith("{") else {"error": said or "no text"}
            text = text_of(found, options.name, response.status)
            response.raise_for_status()
            yield text


def _recording(options: argparse.Namespace) -> tuple[str, aiohttp.FormData]:
    if not options.audio:
        raise UsageError("--text is missing: give the question")
    if options.streaming or options.protocol != OPENAI:
        raise UsageError("--audio without --text: give --protocol openai, and no --streaming")
    form = aiohttp.FormData({"model": options.name})
    form.add_field("file", read_file(options.audio), filename=Path(options.audio).name)
    return "/v1/audio/transcriptions", form


@asynccontextmanager
async def _address(options: argparse.Namespace) -> AsyncIterator[str]:
    """Yield where the server answers; Triton listens on its pod's loopback, where kubectl leads."""
    if options.address:
        yield http_url("--address", options.address)
        return
    async with connection(options):
        pass  # kubectl would blame localhost where there is no kubeconfig
    port = GATEWAY_PORT if options.protocol == OPENAI else HTTP_PORT
    words = ["kubectl", "port-forward", f"deployment/{names.deployment(options.name)}", f":{port}"]
    words += kubectl_options(options)
    pipe, joined = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
    try:
        forward = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=joined)
    except FileNotFoundError as error:
        raise UsageError("there is no kubectl: install it, or give --address") from error
    try:
        assert forward.stdout  # noqa: S101  # a pipe, as requested
        said, found = "it ended", None
        async with asyncio.timeout(options.timeout):
            while not found and (line := (await forward.stdout.readline()).decode()):
                said, found = line.strip(), re.search(r"from (\S+:\d+) ->", line)
        if not found:
            raise ClusterError(0, "kubectl port-forward", options.name, said)
        yield f"http://{found[1]}"
    finally:
        if forward.returncode is None:
            forward.terminate()
        await forward.wait()
