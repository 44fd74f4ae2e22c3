"""What is no image, or too much of one, is refused with a message before it costs anything."""

import base64

import numpy as np
import pytest

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.media import MediaLimits, image_from_url, images_from_pixels
from support.cases import cases
from support.tiny_llava import IMAGES

LIMITS = MediaLimits(max_bytes=100_000, max_pixels=250_000)
PNG = (IMAGES / "red-square.png").read_bytes()


def _url(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode()


@cases(
    "url message",
    {
        "not fetched": ("https://example.com/x.png", "not a URL of an image"),
        "file": ("file:///etc/passwd", "not a URL of an image"),
        "not base64": ("data:image/png;base64,@@@@", "not valid base64"),
        "truncated base64": ("data:image/png;base64,abcde", "not valid base64"),
        "not marked as base64": ("data:image/png,abc", "not marked as base64"),
        "no comma": ("data:image/png;base64", "no comma"),
        "empty": (_url(b""), "empty \\(0 bytes\\)"),
        "no image": (_url(b"GIF89a nonsense"), "not an image"),
        "truncated": (_url(PNG[: len(PNG) // 2]), "damaged or truncated"),
        "too many bytes": (_url(b"x" * 200_000), "more than the limit of 100000"),
    },
)
def test_bad_urls(url: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        image_from_url(url, LIMITS)


@cases(
    "shape message",
    {
        "no image dimension": ((1, 10, 10, 3), "expected raw RGB as"),
        "four channels": ((1, 1, 4, 10, 10), "expected raw RGB as"),
        "batch of two": ((2, 1, 10, 10, 3), "expected raw RGB as"),
        "no rows": ((1, 1, 0, 10, 3), "the image is empty"),
        "too many pixels": ((1, 1, 1000, 1000, 3), "1000 x 1000 pixels"),
    },
)
def test_bad_raw_pixels(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        images_from_pixels(np.zeros(shape, dtype=np.uint8), LIMITS)
