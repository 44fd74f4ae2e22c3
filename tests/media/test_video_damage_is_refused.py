"""What a decoder would conceal, or pass over, is an error that says so."""

from functools import cache

import numpy as np
import pytest

from mm_runtime.gateway.media.video import VideoLimits, decode_video, read_video
from mm_runtime.images.media import BadImageError
from support.audio_files import encode_audio, noise
from support.cases import cases
from support.images import data_url
from support.video_files import RED, busy, flipped, of_packets, plain, video_of

LIMITS = VideoLimits(1 << 20, 10**6, 24)
SEEDS = range(20)


@cache
def _file(codec: str, container: str) -> bytes:
    pixels = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    return video_of([busy(at) for at in range(24)], codec=codec, container=container, pixels=pixels)


FORMATS = [
    pytest.param("libx264", "mp4", 18, id="h264"),
    pytest.param("libx264", "matroska", 20, id="h264-mkv"),
    pytest.param("libx265", "mp4", 9, id="h265"),
    pytest.param("libx265", "matroska", 20, id="h265-mkv"),
    pytest.param("libvpx", "webm", 6, id="vp8"),
    pytest.param("libvpx-vp9", "webm", 18, id="vp9"),
    pytest.param("libsvtav1", "mp4", 20, id="av1"),
    pytest.param("mpeg4", "mp4", 18, id="mpeg4"),
    pytest.param("mjpeg", "mov", 18, id="mjpeg"),
]
"""Encoder, container, and of twenty damaged videos those that are refused at the least. The rest
decode to other images: that is not seen (docs/reference/media.md)."""


def _is_refused(content: bytes) -> bool:
    try:
        decode_video(content, LIMITS)
    except BadImageError as error:
        return "damaged" in str(error) or "truncated" in str(error)
    return False


@pytest.mark.parametrize(("codec", "container", "least"), FORMATS)
def test_flipped_bytes(codec: str, container: str, least: int) -> None:
    """Forty bytes somewhere in the packets of a video of a second."""
    refused = sum(_is_refused(flipped(_file(codec, container), seed)) for seed in SEEDS)

    assert refused >= least


@pytest.mark.parametrize(("codec", "container"), [one.values[:2] for one in FORMATS])
def test_intact_videos(codec: str, container: str) -> None:
    frames = decode_video(_file(codec, container), LIMITS).frames
    apart = [abs(np.asarray(one).astype(int) - busy(at)).mean() for at, one in enumerate(frames)]

    assert len(frames) == 24
    assert max(apart) < 40


@pytest.mark.parametrize(("codec", "container"), [one.values[:2] for one in FORMATS])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_truncated(codec: str, container: str, part: float) -> None:
    content = _file(codec, container)

    with pytest.raises(BadImageError, match="damaged or truncated"):
        decode_video(content[: int(len(content) * part)], LIMITS)


def test_truncated_behind_its_index() -> None:
    """An MP4 made for the web has its index first: a player would show what there is."""
    fragmented = {"movflags": "frag_keyframe+empty_moov"}
    content = of_packets(_file("libx264", "mp4"), list, options=fragmented)
    assert content.index(b"moov") < content.index(b"mdat")
    assert len(decode_video(content, LIMITS).frames) == 24

    with pytest.raises(BadImageError, match=r"its headers promise [0-9]+ bytes"):
        decode_video(content[: len(content) // 2], LIMITS)


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_lost_packets(codec: str) -> None:
    """A video in whose middle packets are missing, whose frames others refer to."""
    content = video_of([busy(at) for at in range(24)], codec=codec)
    lost = of_packets(content, lambda found: found[:6] + found[9:])

    assert _is_refused(lost)


def test_without_an_index() -> None:
    """A telephone whose battery ended: the MP4 has no `moov`."""
    content = _file("libx264", "mp4")

    with pytest.raises(BadImageError, match="damaged or truncated"):
        decode_video(content[: content.index(b"moov") - 4], LIMITS)


def test_without_a_key_frame() -> None:
    content = video_of([busy(at) for at in range(10)], container="matroska", options={"bf": "0"})

    with pytest.raises(BadImageError, match="no key frame"):
        decode_video(of_packets(content, lambda found: found[1:], "matroska"), LIMITS)


@cases(
    "content words",
    {
        "nothing": (b"", "the image is empty|the video is empty"),
        "annex-b": (b"\0\0\0\1\x67" + bytes(99), "a raw stream of H.264"),
        "avi": (b"RIFF\0\0\0\0AVI " + bytes(99), "but AVI"),
        "ts": (b"\x47" + bytes(187) + b"\x47" + bytes(187), "transport stream"),
        "flv": (b"FLV\1" + bytes(99), "but FLV"),
        "mp3": (encode_audio(noise(0.5, 1), "mp3", "libmp3lame"), "not a video"),
        "m4a": (encode_audio(noise(0.5, 1), "mp4", "aac"), "it is audio: send it as"),
    },
)
def test_what_is_no_video_here(content: bytes, words: str) -> None:
    """Is refused by its name, with what can be sent."""
    with pytest.raises(BadImageError, match=words):
        read_video(data_url(content, "video/mp4"), LIMITS)


@cases(
    "options",
    {
        "open-gop": {"bf": "3", "g": "8", "x264-params": "open-gop=1"},
        "intra-refresh": {"x264-params": "intra-refresh=1:keyint=8"},
        "slices": {"x264-params": "slices=4"},
        "interlaced": {"x264-params": "interlaced=1"},
        "baseline": {"profile": "baseline"},
        "many-b-frames": {"x264-params": "bframes=16:b-pyramid=normal:ref=8"},
    },
)
def test_unusual_videos_are_intact(options: dict[str, str]) -> None:
    """What encoders really write is not taken for damage."""
    frames = [busy(at) for at in range(24)]

    assert len(decode_video(video_of(frames, options=options), LIMITS).frames) == 24


@cases(
    "codec options",
    {
        "h264": ("libx264", {"x264-params": "keyint=8:min-keyint=8:bframes=3:open-gop=1:ref=4"}),
        "h265": (
            "libx265",
            {"x265-params": "keyint=8:min-keyint=8:bframes=3:open-gop=1:log-level=none"},
        ),
    },
)
def test_an_open_group_at_the_start(codec: str, options: dict[str, str]) -> None:
    """A video cut at a key frame that earlier ones refer to: they are left out, as in players."""
    content = video_of([busy(at) for at in range(40)], codec=codec, options=options)

    def cut(packets: list) -> list:
        keys = [at for at, one in enumerate(packets) if one.is_keyframe]
        return packets[[*keys, 8][1] :]

    assert len(decode_video(of_packets(content, cut), LIMITS).frames) > 20


def test_one_frame() -> None:
    assert len(decode_video(video_of([plain(RED)]), LIMITS).frames) == 1
