"""Videos and rows of images become a bounded number of frames; the rest is refused."""

import base64
from collections.abc import Callable

import pytest
from PIL import Image

from mm_runtime.gateway.media.frame_choice import FrameChoice
from mm_runtime.gateway.media.video import VideoLimits, decode_video, read_video
from mm_runtime.images.media import BadImageError
from support.cases import cases
from support.image_files import animation
from support.images import data_url, encode, plain_image
from support.videos import long_video, video

LIMITS = VideoLimits(max_bytes=9_000_000, max_pixels=10_000, max_frames=4)


def _shades(frames: list[Image.Image]) -> list[object]:
    return [frame.getpixel((5, 5)) for frame in frames]


def _row(*frames: bytes) -> str:
    return "data:video/jpeg;base64," + ",".join(base64.b64encode(one).decode() for one in frames)


def test_a_row_of_images() -> None:
    encoded = [encode(plain_image((8, 8), (at, at, at))) for at in range(7)]
    frames = read_video(_row(*encoded), LIMITS).frames
    assert [(at, at, at) for at in (0, 2, 4, 6)] == _shades(frames)


@cases(
    "make words",
    {
        "video-of-zeros": (
            lambda: data_url(b"\0\0\0\x18ftypmp42" + bytes(64), "video/mp4"),
            "damaged or truncated",
        ),
        "large-video": (
            lambda: data_url(video(30, width=200, height=100), "video/mp4"),
            "200 x 100 = 20000 pixels, more than the limit of 10000",
        ),
        "video-of-10000-frames": (
            lambda: data_url(long_video(10_000), "video/mp4"),
            "10000 frames, more than 4096",
        ),
        "animation": (
            lambda: data_url(animation("GIF"), "image/gif"),
            "but a GIF image; send an MP4 or WebM, or the frames",
        ),
        "empty": (lambda: data_url(b"", "video/mp4"), "empty"),
        "ragged": (
            lambda: _row(encode(plain_image((8, 8))), encode(plain_image((9, 8)))),
            "different sizes",
        ),
        "a-frame-is-no-image": (lambda: _row(encode(plain_image()), b"no"), "not an image"),
        "zeros": (lambda: _row(*[bytes(60_000)] * 3), "not an image"),
        "not-base64": (lambda: "data:video/jpeg,abc", "not marked as base64"),
        "bytes": (lambda: "data:video/jpeg;base64," + "A" * 13_000_000, "limit of 9000000"),
    },
)
def test_refusals(make: Callable[[], str], words: str) -> None:
    with pytest.raises(BadImageError, match=words):
        read_video(make(), LIMITS)


MOST = 8
AMPLE = (9_000_000, 10_000, MOST)


@cases(
    "choice kept",
    {
        "as-many-as-fit": (FrameChoice(), [0, 3, 6, 9, 11, 14, 17, 20]),
        "two-a-second": (FrameChoice(fps=2), [0, 7, 13, 20]),
        "at-least-one": (FrameChoice(fps=0.1), [0]),
        "no-more-than-fit": (FrameChoice(fps=240), [0, 3, 6, 9, 11, 14, 17, 20]),
        "so-many": (FrameChoice(num_frames=3), [0, 10, 20]),
        "no-more-than-said": (FrameChoice(fps=2, max_frames=2), [0, 20]),
        "the-fewest-count": (FrameChoice(fps=2, num_frames=6), [0, 7, 13, 20]),
    },
)
def test_places(choice: FrameChoice, kept: list[int]) -> None:
    """Of 21 frames in two seconds, evenly."""
    assert kept == list(choice.places(21, 2.0, MOST))


def test_short_videos_are_kept() -> None:
    assert list(FrameChoice(num_frames=5).places(2, 1.0, MOST)) == [0, 1]


@pytest.mark.parametrize(("container", "codec"), [("mp4", "h264"), ("webm", "libvpx-vp9")])
def test_seconds_of_files(container: str, codec: str) -> None:
    """Two seconds of 25 frames each, at 2 and at 3 frames a second."""
    content = video(50, container, codec)
    found = [
        len(decode_video(content, VideoLimits(*AMPLE, FrameChoice(fps=fps))).frames)
        for fps in (2, 3)
    ]
    assert found == [4, 6]


def test_rows_of_frames_have_no_times() -> None:
    """`fps` means nothing there and is refused; a number of frames is honoured."""
    frames = [base64.b64encode(encode(plain_image((8, 8), (at, 0, 0)))).decode() for at in range(6)]
    row = "data:video/jpeg;base64," + ",".join(frames)
    with pytest.raises(BadImageError, match="`fps` cannot be honoured"):
        read_video(row, VideoLimits(*AMPLE, FrameChoice(fps=2)))
    assert len(read_video(row, VideoLimits(*AMPLE, FrameChoice(num_frames=2))).frames) == 2
