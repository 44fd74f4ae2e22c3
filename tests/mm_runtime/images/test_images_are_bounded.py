"""No file costs more than its limits allow, or ends in another error than a refusal."""

import io

import numpy as np
import pytest
from PIL import Image

from mm_runtime.images.media import BadImageError, decode
from support.cases import cases
from support.images import encode, plain_image

LIMIT = 1_000_000


@cases(
    "content reason",
    {
        "magic-number-only": (b"GIF89a", "damaged|not an image"),
        "too-many-pixels": (encode(plain_image((2000, 501))), "2000 x 501 = 1002000"),
    },
)
def test_what_is_no_image_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(BadImageError, match=reason):
        decode(content, max_pixels=LIMIT)


def test_bytes_flipped_at_random_never_escape_as_another_error() -> None:
    random = np.random.default_rng(7)
    for kind in ("PNG", "JPEG", "GIF", "WEBP"):
        content = bytearray(encode(plain_image((24, 24)), kind))
        for _ in range(250):
            damaged = bytearray(content)
            for place in random.integers(0, len(content), 4):
                damaged[place] = random.integers(0, 256)
            try:
                decode(bytes(damaged), max_pixels=LIMIT)
            except BadImageError:
                continue


def test_a_bomb_is_refused_by_its_header() -> None:
    bomb = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(bomb, "PNG")
    with pytest.raises(BadImageError, match="20000 x 20000"):
        decode(bomb.getvalue(), max_pixels=50_000_000)
