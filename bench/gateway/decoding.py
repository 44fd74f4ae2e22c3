"""What decoding in another process costs beside decoding in this one.

    python bench/gateway/decoding.py

Both in turn for each size, so that what else the machine does disturbs them alike; medians.
"""

import asyncio
import io
import json
import os
import platform
import statistics
import time
from pathlib import Path

import numpy as np
from PIL import Image

from mm_runtime.gateway.media.decoding.jobs import image_job
from mm_runtime.gateway.media.decoding.pool import Decoders
from mm_runtime.gateway.media.decoding.process import DecoderLimits
from mm_runtime.serving.preprocess.processors.prepared import Colours
from mm_runtime.serving.preprocess.processors.squares import SquareProcessor

RESULTS = Path(__file__).parent / "results" / "decoding.json"
TURNS = {(336, 336): 101, (1024, 768): 101, (4032, 3024): 15, (8192, 6103): 5}
MOST_PIXELS = 50_000_000
HALF = (0.5, 0.5, 0.5)
COLOURS = Colours(HALF, HALF, 1 / 255, Image.Resampling.BICUBIC)
CLIP = SquareProcessor(336, 336, COLOURS, rows=576)


def photograph(size: tuple[int, int]) -> bytes:
    """Return a JPEG with something to see in every block of it."""
    random = np.random.default_rng(1)
    coarse = random.integers(0, 256, (size[1] // 16 + 1, size[0] // 16 + 1, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(coarse).resize(size).save(file, "JPEG", quality=90)
    return file.getvalue()


async def measured(decoders: Decoders, size: tuple[int, int], turns: int) -> dict[str, object]:
    """Return medians for one size of image."""
    content = photograph(size)
    job = image_job(CLIP.reduced, 1, MOST_PIXELS)
    here, there = [], []
    for _ in range(turns):
        begun = time.perf_counter()
        await asyncio.to_thread(job, content)
        here.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        await decoders.through(lambda run: run(job, content, 60))
        there.append(time.perf_counter() - begun)
    thread, process = statistics.median(here), statistics.median(there)
    return {
        "image": f"{size[0]} x {size[1]}",
        "kilobytes": len(content) // 1000,
        "turns": turns,
        "thread_ms": round(thread * 1000, 2),
        "process_ms": round(process * 1000, 2),
        "ratio": round(process / thread, 3),
    }


async def main() -> None:
    """Measure, write, print."""
    load = os.getloadavg()[0]
    decoders = Decoders(1, DecoderLimits(memory_bytes=1 << 31, wall_seconds=300))
    try:
        rows = [await measured(decoders, size, turns) for size, turns in TURNS.items()]
    finally:
        decoders.close()
    machine = {"cores": os.cpu_count(), "load_before": round(load, 1)}
    document = {
        "command": "python bench/gateway/decoding.py",
        "machine": {**machine, "python": platform.python_version()},
        "images": rows,
    }
    text = json.dumps(document, indent=1)
    RESULTS.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    asyncio.run(main())
