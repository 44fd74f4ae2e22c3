"""What an image costs that was seen before: time to first token against that of a new one.

The model is `middle_llava`, the image the largest that the API admits by default (50 megapixels),
so that receiving, decoding and resizing it, which no cache saves, weigh as much as they can. New
and known images take turns in the same run; `small` is the same with images of the tower's own
size. Then ten clients query about one new image at once: the encoder's count says how often it ran.

    .venv/bin/python bench/runtime/feature_cache.py --rounds 10

writes bench/runtime/results/feature_cache.json.
"""

import argparse
import base64
import io
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image
from prometheus_client.parser import text_string_to_metric_families
from record import RESULTS, write

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))

from mm_api.metrics import FEATURE_CACHE_LOOKUPS  # noqa: E402
from mm_api.v1alpha1.gateway import GatewaySpec  # noqa: E402
from support.build_plans import change_serving  # noqa: E402 - tests are no package
from support.middle_llava import SIDE, build_middle_llava  # noqa: E402
from support.real_gateway import RealGateway, run_pair  # noqa: E402

BATCH, AT_ONCE = 10, 10
CACHE_BYTES = 64 << 20


def image(number: int, side: int) -> str:
    """Return coarse noise as a data URL of a JPEG; no two numbers give the same."""
    cells = np.random.default_rng(number).integers(0, 255, (32, 32, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(cells).resize((side, side)).save(file, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"


def first_token_seconds(client: httpx.Client, model: str, url: str) -> float:
    """Query about an image; return the time to the first piece of text."""
    content = [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "What is in the image?"},
    ]
    body = {
        "model": model,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": 4,
        "temperature": 0,
        "stream": True,
    }
    begin = time.perf_counter()
    found = None
    with client.stream("POST", "/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if found is None and '"delta":{"content"' in line:
                found = time.perf_counter() - begin
    if found is None:
        raise ValueError("the stream had no text")
    return found


def lookups(pair: RealGateway) -> dict[str, float]:
    """Return the cache's lookups by result."""
    return {
        sample.labels["result"]: sample.value
        for family in text_string_to_metric_families(pair.triton_metrics())
        for sample in family.samples
        if sample.name == FEATURE_CACHE_LOOKUPS.name
    }


def compare(pair: RealGateway, rounds: int, side: int) -> dict[str, float]:
    """Query about new and known images in turn; return medians in milliseconds."""
    new, known = [], []
    with httpx.Client(base_url=pair.url, timeout=120) as client:
        for number in range(rounds):
            url = image(number + side * 1000, side)
            new.append(first_token_seconds(client, pair.model, url))
            known.append(first_token_seconds(client, pair.model, url))
    first, second = (statistics.median(times) * 1e3 for times in (new, known))
    return {
        "side_pixels": side,
        "new_ms": round(first, 1),
        "known_ms": round(second, 1),
        "ratio": round(second / first, 3),
    }


def at_once(pair: RealGateway) -> dict[str, float]:
    """Query ten times at once about a new image; return what the cache counted."""
    before, url = lookups(pair), image(1, SIDE)
    with (
        httpx.Client(base_url=pair.url, timeout=120) as client,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        list(pool.map(lambda _: first_token_seconds(client, pair.model, url), range(AT_ONCE)))
    return {result: value - before[result] for result, value in lookups(pair).items()}


def main() -> None:
    """Build the model, query it, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    before = os.getloadavg()[0]
    limits = GatewaySpec()
    largest = int(limits.max_image_pixels**0.5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = build_middle_llava(folder, BATCH)
        front: dict[str, Any] = {
            "max_concurrency": BATCH,
            "max_image_pixels": limits.max_image_pixels,
            "max_image_bytes": 20 << 20,
            "request_timeout_seconds": 120,
        }
        change_serving(built.serving, gateway=front, feature_cache_bytes=CACHE_BYTES)
        with run_pair(built, folder) as pair:
            compare(pair, 2, SIDE + 1)  # warm
            result = {
                "largest": compare(pair, rounds, largest),
                "small": compare(pair, rounds, SIDE),
                "ten_at_once": at_once(pair),
            }
    command = f"bench/runtime/feature_cache.py --rounds {rounds}"
    write(RESULTS / "feature_cache.json", command, before, result)


if __name__ == "__main__":
    main()
