"""What the gateway itself costs: tokens of streams, silent streams, images, answers of a form.

    .venv/bin/python bench/gateway/own_cost.py
    .venv/bin/python bench/gateway/own_cost.py --against 95c15885

An engine that costs nothing answers in the gateway's process, so its processor time is that of the
gateway: that is what is counted, and not the time that passes, which depends on what else the
machine does. Writes bench/gateway/results/own_cost.json.
"""

import argparse
import asyncio
import io
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import torch
from checkouts import ROOT, checked_out, started
from goals import Goal, to_json, to_lines
from PIL import Image

from mm_runtime.reference_engine.choosing import choose_all
from mm_runtime.reference_engine.guides import Guides
from mm_runtime.reference_engine.sampling import Rules
from mm_runtime.serving.generate.request import GuideKind, GuideRequest
from mm_runtime.serving.prompts.tokens import TextCodec

sys.path.append(str(ROOT / "tests"))

from support import calling_llava, tool_templates
from support.images import data_url

RESULTS = Path(__file__).parent / "results" / "own_cost.json"
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
STREAMS, TOKENS, IDLE = 64, 280, 1000
IMAGE_BYTES, IMAGES, ROUNDS = 1_000_000, 30, 3
SETTLED_SECONDS = 0.02
"""After an answer, until its threads have ended what is left of it."""

BATCH, STEPS, LONGEST, VOCABULARY = 16, 200, 20, 32_000
ALLOWED = 0.1
"""Share of the vocabulary."""

HIDDEN = 4096

DEADLINE_SECONDS = 120


def gateway(
    folder: Path, *more: str, checkout: Path = ROOT
) -> AbstractContextManager[tuple[psutil.Process, int]]:
    """Return what runs a gateway of a checkout's code; yields its process and port."""
    return started(checkout, "null_gateway.py", str(folder), *more)


def own_seconds(process: psutil.Process) -> float:
    """Return the processor time of one process so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def exact_ms(process: psutil.Process) -> float:
    """Return the same in milliseconds, by the kernel's clock instead of its ticks of 10 ms."""
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e6


def request(tokens: int) -> bytes:
    """Return a request for a stream."""
    body = {
        "model": "toy",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": tokens,
        "stream": True,
    }
    content = json.dumps(body).encode()
    return HEAD + b"content-length: %d\r\n\r\n%s" % (len(content), content)


async def read_stream(port: int, tokens: int) -> None:
    """Read one stream to its end, with as little work as possible."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    writer.write(request(tokens))
    await reader.readuntil(b"[DONE]")
    writer.close()


async def streams(folder: Path) -> dict[str, float]:
    """Return tokens for each second of the gateway's processor time."""
    with gateway(folder) as (process, port):
        await read_stream(port, TOKENS)
        found = []
        for _ in range(5):
            before = own_seconds(process)
            async with asyncio.timeout(DEADLINE_SECONDS):
                await asyncio.gather(*(read_stream(port, TOKENS) for _ in range(STREAMS)))
            found.append(STREAMS * TOKENS / (own_seconds(process) - before))
    return {
        "streams": STREAMS,
        "tokens_a_second_and_core_p50": round(statistics.median(found)),
        "least": round(min(found)),
    }


async def idle(folder: Path) -> dict[str, float]:
    """Return the private memory of a stream that waits for its next token."""
    with gateway(folder, "--idle") as (process, port):
        async with asyncio.timeout(DEADLINE_SECONDS):
            held = [await _open(port) for _ in range(50)]
            before = process.memory_full_info().uss
            held += [await _open(port) for _ in range(IDLE)]
            after = process.memory_full_info().uss
        for writer in held:
            writer.close()
    return {"streams": IDLE, "bytes_each": round((after - before) / IDLE)}


async def _open(port: int) -> asyncio.StreamWriter:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2048)
    writer.write(request(8))
    await reader.readuntil(b" word")
    return writer


def photograph() -> bytes:
    """Return a JPEG of a megabyte."""
    random = np.random.default_rng(1)
    coarse = random.integers(0, 256, (140, 190, 3), dtype=np.uint8)
    side, content = 1600, b""
    while len(content) < IMAGE_BYTES:
        file = io.BytesIO()
        Image.fromarray(coarse).resize((side, side * 3 // 4)).save(file, "JPEG", quality=95)
        side, content = side + 200, file.getvalue()
    return content


async def images(folder: Path, content: bytes, checkout: Path) -> dict[str, list[float]]:
    """Return milliseconds of the gateway's processor time of each request, and its decoder's."""
    body = {
        "model": "toy",
        "max_tokens": 1,
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": data_url(content, "image/jpeg")}},
                    {"type": "text", "text": "what is it"},
                ],
            }
        ],
    }
    text = json.dumps(body).encode()
    found: dict[str, list[float]] = {"gateway": [], "decoding": []}
    with gateway(folder, checkout=checkout) as (process, port):
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        async with httpx.AsyncClient(timeout=DEADLINE_SECONDS) as client:
            (await client.post(url, content=text)).raise_for_status()
            decoders = process.children(recursive=True)
            for _ in range(IMAGES):
                before = exact_ms(process), sum(map(exact_ms, decoders))
                (await client.post(url, content=text)).raise_for_status()
                await asyncio.sleep(SETTLED_SECONDS)
                found["gateway"].append(exact_ms(process) - before[0])
                found["decoding"].append(sum(map(exact_ms, decoders)) - before[1])
    return found


async def images_in_turn(folder: Path, checkouts: dict[str, Path]) -> dict[str, dict[str, Any]]:
    """Return the processor time of an image by the code of each checkout; tenth percentiles."""
    content = photograph()
    width, height = Image.open(io.BytesIO(content)).size
    taken: dict[str, dict[str, list[float]]] = {
        name: {"gateway": [], "decoding": []} for name in checkouts
    }
    for number in range(ROUNDS):
        for name, checkout in checkouts.items():
            found = await images(folder / f"{name}-{number}", content, checkout)
            for part, values in found.items():
                taken[name][part] += values
    alone = [_decode_ms(content) for _ in range(IMAGES)]
    return {
        name: {
            "image": f"JPEG, {width} x {height}, {len(content)} bytes",
            "gateway_cpu_ms": round(tenth(parts["gateway"]), 2),
            "decoding_cpu_ms": round(tenth(parts["decoding"]), 2),
            "cpu_ms": round(tenth(parts["gateway"]) + tenth(parts["decoding"]), 2),
            "libjpeg_turbo_alone_cpu_ms": round(tenth(alone), 2),
        }
        for name, parts in taken.items()
    }


def _decode_ms(content: bytes) -> float:
    """Return what Pillow's decoder alone takes of this thread."""
    begun = time.thread_time()
    Image.open(io.BytesIO(content)).load()
    return (time.thread_time() - begun) * 1000


def tenth(values: list[float]) -> float:
    """Return the tenth percentile: other work on the machine lengthens the rest."""
    return sorted(values)[len(values) // 10]


def schema(folder: Path) -> dict[str, float]:
    """Return what sixteen answers of a JSON schema add to a step: following it, and the choice."""
    codec = TextCodec(calling_llava.write_calling_llava(folder, tool_templates.HERMES))
    guides = Guides(codec, vocabulary_size=codec.size, end_ids=frozenset({codec.end_id}))
    text = json.dumps(
        {
            "type": "object",
            "properties": {"name": {"type": "string"}, "tags": {"type": "array"}},
            "required": ["name", "tags"],
        }
    )
    request_ = GuideRequest(GuideKind.JSON_SCHEMA, text)
    random = np.random.default_rng(1)
    followed = []
    for _ in range(STEPS // LONGEST):
        held, answers = [guides.make(request_) for _ in range(BATCH)], [list[int]()] * BATCH
        for _ in range(LONGEST):
            begun = time.thread_time()
            masks = [guide.allowed(one) for guide, one in zip(held, answers, strict=True)]
            followed.append(time.thread_time() - begun)
            answers = [
                [*one, int(random.choice(np.flatnonzero(mask)))]
                for one, mask in zip(answers, masks, strict=True)
            ]
            if any(one[-1] == codec.end_id for one in answers):
                break
    torch.manual_seed(1)
    rules = [Rules(allowed=random.random(VOCABULARY) < ALLOWED) for _ in range(BATCH)]
    nothing: list[int | None] = [None] * BATCH
    plain, guided, heads = [], [], []
    torch.set_num_threads(1)
    head, states = torch.randn(VOCABULARY, HIDDEN), torch.randn(BATCH, HIDDEN)
    for number in range(STEPS):
        logits = torch.randn(BATCH, VOCABULARY)
        if number % LONGEST == 0:
            begun = time.thread_time()
            torch.nn.functional.linear(states, head)
            heads.append(time.thread_time() - begun)
        begun = time.thread_time()
        choose_all(logits, [None] * BATCH, nothing)
        between = time.thread_time()
        choose_all(logits, rules, nothing)
        guided.append(time.thread_time() - between)
        plain.append(between - begun)
    following = statistics.median(followed)
    choosing = statistics.median(guided) - statistics.median(plain)
    return {
        "batch": BATCH,
        "following_ms_a_step": round(following * 1000, 3),
        "vocabulary": VOCABULARY,
        "plain_choice_ms": round(statistics.median(plain) * 1000, 3),
        "choice_adds_ms": round(choosing * 1000, 3),
        "head_of_4096_ms": round(statistics.median(heads) * 1000, 1),
        # Of a decoder of 7 billion parameters on one core: the last fiftieth of a step.
        "share_of_the_head": round((following + choosing) / statistics.median(heads), 4),
    }


def goals(measured: dict[str, Any]) -> list[Goal]:
    """Return the goals of the gateway itself."""
    rate = measured["streams"]["tokens_a_second_and_core_p50"]
    image = measured["image_as_data_url"]
    return [
        Goal("tokens a second and core, 64 streams", rate, 20_000, at_least=True),
        Goal("bytes of an idle stream", measured["idle_streams"]["bytes_each"], 100_000),
        Goal("ms of the gateway's process, image of 1 MB", image["gateway_cpu_ms"], 10),
        Goal("ms with its decoder, image of 1 MB", image["cpu_ms"], 10),
        Goal("JSON schema, share of a step", measured["json_schema"]["share_of_the_head"], 0.05),
    ]


async def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--against", help="another commit, whose images are measured in turn")
    against = parser.parse_args().against
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkouts = {"image_as_data_url": ROOT}
        if against:
            (folder / "other").mkdir()
            checkouts[f"image_of_{against}"] = checked_out(against, folder / "other")
        measured: dict[str, Any] = {
            "streams": await streams(folder / "streams"),
            "idle_streams": await idle(folder / "idle"),
            **await images_in_turn(folder, checkouts),
            "json_schema": schema(folder / "letters"),
        }
    document = {
        "command": " ".join(["bench/gateway/own_cost.py", *sys.argv[1:]]),
        "machine": {
            "cores": os.cpu_count(),
            "load_before": round(load, 1),
            "python": platform.python_version(),
        },
        **measured,
        "goals": to_json(reached := goals(measured)),
    }
    text = json.dumps(document, indent=1)
    RESULTS.write_text(text + "\n")
    print(text)
    print(to_lines(reached))


if __name__ == "__main__":
    asyncio.run(main())
