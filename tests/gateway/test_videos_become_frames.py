"""Animations and rows of pictures become a bounded number of frames; the rest is refused."""

import base64
import io

import pytest
from PIL import Image

from mm_runtime.gateway.video import VideoLimits, decode_video, read_video
from mm_runtime.pictures.media import BadImageError
from support.pictures import data_url, encode, picture

LIMITS = VideoLimits(max_bytes=200_000, max_pixels=10_000, max_frames=4)


def _animation(count: int, kind: str = "GIF", size: tuple[int, int] = (20, 10)) -> bytes:
    """Return frames that grow brighter, so that a frame tells its number."""
    frames = [picture(size, (at * 20 % 256,) * 3) for at in range(count)]
    buffer = io.BytesIO()
    options = {"lossless": True} if kind == "WEBP" else {}
    frames[0].save(
        buffer, kind, save_all=True, append_images=frames[1:], duration=40, loop=0, **options
    )
    return buffer.getvalue()


def _shades(frames: list[Image.Image]) -> list[object]:
    return [frame.getpixel((5, 5)) for frame in frames]


def _row(*frames: bytes) -> str:
    return "data:video/jpeg;base64," + ",".join(base64.b64encode(one).decode() for one in frames)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
@pytest.mark.parametrize(
    ("count", "kept"),
    [
        pytest.param(2, [0, 1], id="all"),
        pytest.param(10, [0, 3, 6, 9], id="spread-evenly"),
    ],
)
def test_animations(kind: str, count: int, kept: list[int]) -> None:
    """No more frames than the plan has room for, the first and the last among them."""
    frames = decode_video(_animation(count, kind), LIMITS)
    assert [(at * 20,) * 3 for at in kept] == _shades(frames)


def test_a_row_of_pictures() -> None:
    """Frames that the client took out of a film itself."""
    encoded = [encode(picture((8, 8), (at, at, at))) for at in range(7)]
    frames = read_video(_row(*encoded), LIMITS)
    assert [(at, at, at) for at in (0, 2, 4, 6)] == _shades(frames)


def test_an_animation_as_data_url() -> None:
    """The media type of a picture will do."""
    url = data_url(_animation(3), "image/gif")
    assert len(read_video(url, LIMITS)) == 3


@pytest.mark.parametrize(
    ("url", "words"),
    [
        pytest.param(
            data_url(b"\0\0\0\x18ftypmp42" + bytes(64), "video/mp4"),
            "no video that is read here; send an animated GIF",
            id="film",
        ),
        pytest.param(
            data_url(_animation(4)[:200], "image/gif"), "damaged or truncated", id="truncated"
        ),
        pytest.param(
            data_url(_animation(4097, size=(1, 1)), "image/gif"),
            "4097 frames, more than 4096",
            id="too-many-frames",
        ),
        pytest.param(
            data_url(_animation(2, size=(200, 100)), "image/gif"),
            "200 x 100 = 20000 pixels, more than the limit of 10000",
            id="too-large",
        ),
        pytest.param(
            _row(encode(picture((8, 8))), encode(picture((9, 8)))), "different sizes", id="ragged"
        ),
        pytest.param(_row(encode(picture()), b"no"), "not an image", id="a-frame-is-no-picture"),
        pytest.param(_row(*[bytes(60_000)] * 3), "not an image", id="zeros"),
        pytest.param("data:video/jpeg,abc", "not base64", id="not-base64"),
        pytest.param("data:video/jpeg;base64," + "A" * 400_000, "limit of 200000", id="bytes"),
    ],
)
def test_refusals(url: str, words: str) -> None:
    """The message says what is wrong and what can be sent."""
    with pytest.raises(BadImageError, match=words):
        read_video(url, LIMITS)
