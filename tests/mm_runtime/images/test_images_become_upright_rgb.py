"""Every kind of file that users have becomes the RGB image they see."""

import io

import numpy as np
import pytest
from PIL import Image

from mm_runtime.images.media import BadImageError, decode
from support.images import RED, encode, plain_image

LIMIT = 1_000_000


def _mean(content: bytes) -> tuple[int, ...]:
    pixels = np.asarray(decode(content, max_pixels=LIMIT), dtype=np.float64)
    return tuple(round(value) for value in pixels.reshape(-1, 3).mean(axis=0))


def _near(expected: tuple[int, ...], actual: tuple[int, ...], tolerance: int = 4) -> bool:
    return all(abs(a - b) <= tolerance for a, b in zip(expected, actual, strict=True))


@pytest.mark.parametrize(
    ("kind", "mode", "expected"),
    [
        pytest.param("PNG", "RGB", RED, id="png"),
        pytest.param("JPEG", "RGB", RED, id="jpeg"),
        pytest.param("WEBP", "RGB", RED, id="webp"),
        pytest.param("GIF", "P", RED, id="gif-palette"),
        pytest.param("PNG", "P", RED, id="png-palette"),
        pytest.param("JPEG", "CMYK", RED, id="jpeg-cmyk"),
        pytest.param("PNG", "L", (80, 80, 80), id="png-grey"),
        pytest.param("JPEG", "L", (80, 80, 80), id="jpeg-grey"),
    ],
)
def test_a_red_image_stays_red(kind: str, mode: str, expected: tuple[int, ...]) -> None:
    """Whatever its file format and colour mode; without colour it is as bright as red is."""
    converted = plain_image().convert(
        mode, dither=Image.Dither.NONE, palette=Image.Palette.ADAPTIVE
    )
    assert _near(expected, _mean(encode(converted, kind)))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"GIF89a", "damaged|not an image", id="magic-number-only"),
        pytest.param(
            encode(plain_image((2000, 501))), "2000 x 501 = 1002000", id="too-many-pixels"
        ),
    ],
)
def test_what_is_no_image_is_refused(content: bytes, reason: str) -> None:
    """The message says what is wrong with it."""
    with pytest.raises(BadImageError, match=reason):
        decode(content, max_pixels=LIMIT)


def test_bytes_flipped_at_random_never_escape_as_another_error() -> None:
    """A thousand damaged files: each is decoded or refused."""
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
    """20,000 x 20,000 pixels in a few hundred bytes are never decoded."""
    bomb = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(bomb, "PNG")
    with pytest.raises(BadImageError, match="20000 x 20000"):
        decode(bomb.getvalue(), max_pixels=50_000_000)
