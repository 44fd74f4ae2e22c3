"""Questions about images that were never sent before."""

import io
import json
from itertools import count
from typing import Any

import gpu_record  # noqa: F401 - makes the tests' helpers importable
import numpy as np
from PIL import Image

from support.images import data_url

QUALITY = 90
CELL = 14
"""Pixels of a side that have one color: an image of single random pixels is no JPEG's case."""

fresh = count()
"""Numbers of images that were not sent yet."""


def new_image(width: int, height: int | None = None) -> str:
    """Return the data URL of a JPEG that no other call returns; without a height, of a square."""
    size = (height or width, width)
    cells = [side // CELL + 1 for side in size]
    colors = np.random.default_rng(next(fresh)).integers(0, 255, (*cells, 3), dtype=np.uint8)
    pixels = colors.repeat(CELL, axis=0).repeat(CELL, axis=1)[: size[0], : size[1]]
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=QUALITY)
    return data_url(file.getvalue(), "image/jpeg")


def body_of(model: str, image: str | None, tokens: int) -> str:
    """Return the body of a streamed request."""
    parts: list[dict[str, Any]] = [{"type": "text", "text": "What is in the image?"}]
    if image is not None:
        parts.insert(0, {"type": "image_url", "image_url": {"url": image}})
    return json.dumps(
        {
            "model": model,
            "messages": [{"role": "user", "content": parts}],
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    )
