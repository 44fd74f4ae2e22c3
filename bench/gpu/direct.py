"""What the gateway adds to the first text about an image: by Triton's own gRPC, and through it.

In turn, so that both see the same machine; images are new to the server each time. The direct
client decodes the image, scales it and sends its pixels, as `bench/gateway/overhead.py` does.
"""

import asyncio
import base64
import io
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from token_path import Seen, percentile, query

from mm_runtime.backends.triton_server.engine import TritonEngine
from mm_runtime.gateway.backends.engine import EngineRequest, Sampling
from mm_runtime.serving.preprocess.processors.squares import SquareProcessor
from mm_runtime.serving.prompts.tokens import TextCodec
from support.real_gateway import RealGateway

GREEDY = Sampling(0, 1, seed=1)
PROMPT = "USER: <image>\nWhat is in the image? ASSISTANT:"
TOKENS = 2
WARM = 5


def added_to_triton(
    pair: RealGateway,
    processor: Path,
    new_image: Callable[[], str],
    body_of: Callable[[str], str],
    requests: int,
) -> dict[str, Any]:
    """Return milliseconds to the first text of so many requests each way, and their ratios.

    Args:
        pair: Triton and the gateway before it.
        processor: folder of the engine's image processor and tokenizer.
        new_image: returns the data URL of a JPEG that was not sent before.
        body_of: returns the body of a streamed chat about it.
        requests: that count, each way.
    """
    direct, through = asyncio.run(_in_turn(pair, processor, new_image, body_of, requests))
    parts = (("p50", 0.5), ("p99", 0.99))
    found = {
        name: {part: percentile(times, share) for part, share in parts}
        for name, times in (("triton", direct), ("gateway", through))
    }
    ratios = {part: round(found["gateway"][part] / found["triton"][part], 3) for part, _ in parts}
    return {"requests": requests, **found, "ratio": ratios}


async def _in_turn(
    pair: RealGateway,
    processor: Path,
    new_image: Callable[[], str],
    body_of: Callable[[str], str],
    requests: int,
) -> tuple[list[float], list[float]]:
    scaled = SquareProcessor.from_folder(processor)
    engine = TritonEngine(pair.triton_grpc, TextCodec(processor).decode)
    client = HTTPConnection(pair.url.removeprefix("http://"), timeout=60)
    direct: list[float] = []
    seen = Seen()
    for number in range(WARM + requests):
        if number == WARM:
            direct, seen = [], Seen()
        direct.append(await _first_of_triton(engine, scaled, new_image(), number))
        query(client, body_of(new_image()), seen)
    client.close()
    await engine.close()
    return direct, seen.firsts


async def _first_of_triton(
    engine: TritonEngine, scaled: SquareProcessor, image: str, number: int
) -> float:
    began = time.perf_counter()
    data = base64.b64decode(image.partition(",")[2])
    square = np.asarray(scaled.reduced(Image.open(io.BytesIO(data)).convert("RGB")))
    request = EngineRequest(PROMPT, TOKENS, GREEDY, f"direct-{number}", (square,))
    first = None
    async for _ in engine.generate(request):
        first = first or time.perf_counter()
    assert first is not None, "no answer"
    return (first - began) * 1e3
