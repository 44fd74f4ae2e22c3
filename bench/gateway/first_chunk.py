"""How long the first chunk takes through the gateway, before a Triton that answers at once.

    python bench/gateway/first_chunk.py
    python bench/gateway/first_chunk.py --against 642472df

One client sends questions about images that the gateway has not seen, and about ones that it knows.
With `--against` another commit's gateway gets each request, too, in turn: what else the machine
does disturbs both alike. Milliseconds, tenth percentiles and medians; processor time is that of
the gateway's process; `less_in_turn` is the median of what two requests in turn differ by. Writes
bench/gateway/results/first_chunk.json.
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
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from checkouts import ROOT, checked_out, started
from own_cost import exact_ms, tenth
from PIL import Image
from stream_client import StreamClient

sys.path.append(str(ROOT / "tests"))

from support.images import data_url

RESULTS = Path(__file__).parent / "results" / "first_chunk.json"
WARM, ROUNDS = 10, 100
TEXT, KNOWN = "text", "_known"
SIDE, CELL = 336, 14
fresh = count(1)


def jpeg(side: int, cell: int, quality: int) -> bytes:
    """Return a JPEG of cells of one color."""
    cells = np.random.default_rng(1).integers(0, 255, (side // cell,) * 2 + (3,), dtype=np.uint8)
    file = io.BytesIO()
    pixels = cells.repeat(cell, axis=0).repeat(cell, axis=1)
    Image.fromarray(pixels).save(file, "JPEG", quality=quality)
    return file.getvalue()


def new_url(content: bytes) -> str:
    """Return the URL of a JPEG that no other call returns: its comment has a number."""
    comment = next(fresh).to_bytes(8, "big")
    return data_url(content[:2] + b"\xff\xfe\x00\x0a" + comment + content[2:], "image/jpeg")


def kinds() -> dict[str, bytes]:
    """Return the images that are sent."""
    return {
        "jpeg_336": jpeg(SIDE, CELL, 90),
        "jpeg_700": jpeg(700, 7, 90),
        "jpeg_1050": jpeg(1050, 7, 90),
    }


def chat(url: str | None) -> dict[str, Any]:
    """Return the body of a streamed request."""
    text = {"type": "text", "text": "What is in the image?"}
    parts = [text] if url is None else [{"type": "image_url", "image_url": {"url": url}}, text]
    return {
        "model": "toy",
        "messages": [{"role": "user", "content": parts}],
        "max_tokens": 2,
        "temperature": 0,
        "stream": True,
    }


async def measured(
    checkouts: dict[str, Path], folder: Path, sent: list[str] | None, rounds: int
) -> dict[str, Any]:
    """Return what was measured of each checkout with some kinds of requests; None: with all."""
    images = kinds()
    requested = sent or [TEXT, *images, *(name + KNOWN for name in images)]
    taken: dict[str, dict[str, tuple[list[float], list[float]]]] = {
        one: {name: ([], []) for name in checkouts} for one in requested
    }
    with ExitStack() as stack:
        _, triton = stack.enter_context(started(ROOT, "instant_triton.py"))
        running = {}
        for number, (name, checkout) in enumerate(checkouts.items()):
            words = (str(folder / str(number)), str(triton))
            process, port = stack.enter_context(started(checkout, "image_gateway.py", *words))
            running[name] = (process, await StreamClient.open(f"http://127.0.0.1:{port}"))
        for number in range(WARM + rounds):
            for one in requested:
                ways = list(running.items())
                for name, (process, client) in ways if number % 2 else ways[::-1]:
                    body = json.dumps(chat(_url(one, images))).encode()
                    before = exact_ms(process)
                    (first, *_) = await client.pieces(body)
                    # its decoder and threads end what is left
                    await asyncio.sleep(0.005)
                    if number >= WARM:
                        taken[one][name][0].append(first * 1e3)
                        taken[one][name][1].append(exact_ms(process) - before)
        for _, client in running.values():
            client.close()
    sizes = {one: len(images.get(one.removesuffix(KNOWN), b"")) for one in taken}
    return {one: summed_up(ways, sizes[one]) for one, ways in taken.items()}


def summed_up(ways: dict[str, tuple[list[float], list[float]]], size: int) -> dict[str, Any]:
    """Return what is said of one kind of request."""
    (times, costs), *others = ways.values()
    found: dict[str, Any] = {"image_bytes": size}
    for name, (its_times, its_costs) in ways.items():
        found[name] = {
            "first_chunk_ms_p10": round(tenth(its_times), 3),
            "first_chunk_ms_p50": round(statistics.median(its_times), 3),
            "gateway_cpu_ms_p10": round(tenth(its_costs), 3),
        }
    for other_times, other_costs in others:
        found["less_in_turn"] = {
            "first_chunk_ms_p50": round(saved(times, other_times), 3),
            "gateway_cpu_ms_p50": round(saved(costs, other_costs), 3),
        }
    return found


def saved(ours: list[float], others: list[float]) -> float:
    """Return the median of what the requests of a pair differ by: both met the same machine."""
    return statistics.median(other - own for own, other in zip(ours, others, strict=True))


def _url(one: str, images: dict[str, bytes]) -> str | None:
    if one == TEXT:
        return None
    content = images[one.removesuffix(KNOWN)]
    return data_url(content, "image/jpeg") if one.endswith(KNOWN) else new_url(content)


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--against", help="another commit, measured in turn")
    parser.add_argument("--requests", nargs="+", help="kinds: text, jpeg_336, jpeg_336_known, ...")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkouts = {"now": ROOT}
        if options.against:
            (folder / "other").mkdir()
            checkouts[options.against] = checked_out(options.against, folder / "other")
        found = asyncio.run(measured(checkouts, folder, options.requests, options.rounds))
    document = {
        "command": " ".join(["bench/gateway/first_chunk.py", *sys.argv[1:]]),
        "machine": {
            "cores": os.cpu_count(),
            "load_before": round(load, 1),
            "python": platform.python_version(),
        },
        **found,
    }
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    for one, ways in found.items():
        print(one, *(f"{name}: {said}" for name, said in ways.items()), sep="\n  ")


if __name__ == "__main__":
    main()
