"""Frames are chosen by the times at which a player shows them."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from PIL import Image

from mm_runtime.gateway.media.frame_choice import FrameChoice
from mm_runtime.gateway.media.frames import Clip
from mm_runtime.gateway.media.video import VideoLimits, decode_video
from support.cases import cases
from support.video_files import BLUE, GREEN, RED, of_packets, plain, video_of

FEW = 16
VARIABLE = [*range(0, 1000, 33), 4000, 7000, 10_000]
"""Milliseconds: a second of thirty frames, then one every three seconds."""


def _clip(content: bytes, most: int = FEW, **choice: float) -> Clip:
    return decode_video(content, VideoLimits(1 << 20, 10**6, most, FrameChoice(**choice)))


def _name(frame: Image.Image) -> str:
    red, green, blue = np.asarray(frame).reshape(-1, 3).mean(axis=0)
    return {red: "red", green: "green", blue: "blue"}[max(red, green, blue)]


def _times(clip: Clip) -> list[float]:
    """Return the seconds before frames that are evenly spread over a video."""
    assert clip.seconds is not None
    return [at * clip.seconds / len(clip.frames) for at in range(len(clip.frames))]


def _names(clip: Clip) -> list[str]:
    return [_name(one) for one in clip.frames]


def _file(marks: Sequence[int], container: str = "mp4", codec: str = "libx264") -> bytes:
    frames = [plain(RED if at < 4000 else BLUE) for at in marks]
    return video_of(frames, marks, container=container, codec=codec, rate=240)


@cases(
    "container codec",
    {
        "mp4-h264": ("mp4", "libx264"),
        "mkv-h265": ("matroska", "libx265"),
        "webm-vp8": ("webm", "libvpx"),
        "webm-vp9": ("webm", "libvpx-vp9"),
        "mp4-av1": ("mp4", "libsvtav1"),
        "mp4-mpeg4": ("mp4", "mpeg4"),
    },
)
@cases("choice", {"as-many-as-fit": {}, "one-a-second": {"fps": 1}, "six": {"num_frames": 6}})
def test_a_variable_rate(container: str, codec: str, choice: dict[str, float]) -> None:
    """A telephone's video: red up to 4 s, blue from there on, whatever is requested."""
    clip = _clip(_file(VARIABLE, container, codec), **choice)

    assert len(clip.frames) > 4
    assert _names(clip) == ["red" if at < 3.999 else "blue" for at in _times(clip)]
    assert "red" in _names(clip)
    assert "blue" in _names(clip)


def test_a_rate_of_the_request() -> None:
    """`fps: 1` is one frame for each second, those that stand for long more than once."""
    clip = _clip(_file(VARIABLE), fps=1)

    assert clip.seconds is not None
    assert len(clip.frames) == round(clip.seconds)


@cases(
    "marks",
    {
        "one-a-second": [0, 1000, 2000, 3000],
        "one-in-ten-seconds": [at * 10_000 for at in range(4)],
        "240-a-second": [0, 4, 8, 12],
        "rounded-to-milliseconds": [0, 33, 67, 100, 133],
        "starts-late": [5000, 5040, 5080, 5120],
    },
)
def test_a_constant_rate(marks: list[int]) -> None:
    assert len(_clip(_file(marks, "matroska")).frames) == len(marks)


def test_a_gap() -> None:
    """A frame that stands for nine seconds is what is seen there."""
    marks = [0, 500, 9500, 10_000]
    content = video_of([plain(one) for one in (RED, GREEN, BLUE, RED)], marks)

    assert _names(_clip(content, fps=0.5))[:5] == ["red", "green", "green", "green", "green"]


def test_the_last_frame_that_stands() -> None:
    """A image that is shown at the end for long counts with its time."""
    content = video_of([plain(RED), plain(BLUE)], [0, 1000], container="mp4")

    def longer(packets: list) -> list:
        packets[-1].duration = packets[-1].time_base.denominator * 9
        return packets

    clip = _clip(of_packets(content, longer), fps=1)

    assert clip.seconds == pytest.approx(10, abs=0.1)
    assert _names(clip) == ["red", *["blue"] * 9]


def test_a_unit_of_time_that_is_odd() -> None:
    for base in (Fraction(1, 90_000), Fraction(1, 7)):
        marks = [round(at / base) for at in (0, 1, 2, 8)]
        content = video_of([plain(RED), plain(RED), plain(RED), plain(BLUE)], marks, base=base)
        clip = _clip(content, fps=1)
        assert _names(clip) == ["red" if at < 8 else "blue" for at in _times(clip)]
        assert "blue" in _names(clip)


def test_frames_before_an_edit() -> None:
    """What an editor cut off at the start is not shown: a video may not begin with a key frame."""
    frames = [plain(RED)] * 10 + [plain(BLUE)] * 10

    def cut(packets: list) -> list:
        start = 12 * packets[0].time_base.denominator // 25
        for one in packets:
            one.pts, one.dts = one.pts - start, one.dts - start
        return packets

    clip = _clip(of_packets(video_of(frames, options={"bf": "0"}), cut), most=4)

    assert _names(clip) == ["blue"] * 4


def test_frames_without_a_key_frame_before_them() -> None:
    """A recording that begins in the middle is shown from its first key frame on."""
    frames = [plain(RED)] * 5 + [plain(BLUE)] * 10
    content = video_of(frames, container="matroska", options={"g": "5", "bf": "0"})

    assert (
        _names(_clip(of_packets(content, lambda found: found[1:], "matroska"), most=3))
        == ["blue"] * 3
    )
