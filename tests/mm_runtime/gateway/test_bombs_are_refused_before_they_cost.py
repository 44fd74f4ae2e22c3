"""Files that would cost a decoder hours or gigabytes are refused by their structure."""

import tracemalloc
from collections.abc import Callable

import av.logging
import numpy as np
import pytest
from PIL import Image

from mm_runtime.gateway.media.audio import decode_audio
from mm_runtime.gateway.media.container import BadRecordingError, opened
from mm_runtime.gateway.media.video import VideoLimits, decode_video
from mm_runtime.images.media import BadImageError, decode
from mm_runtime.images.structure import MAX_CHUNKS, MAX_COMMENT_BLOCKS, MAX_SCANS
from support import bombs
from support.cases import cases
from support.images import RED, encode, plain_image
from support.videos import long_video, video

LIMIT = 1_000_000
MOST_SAMPLES = 30 * 16_000
VIDEO = VideoLimits(max_bytes=9_000_000, max_pixels=50_000_000, max_frames=16)
_MIB = 1 << 20


def _peak_bytes(work: Callable[[], object]) -> int:
    """Return the most that Python's own objects took meanwhile, bytes and numpy's arrays."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_exif_whose_entries_share_a_region_is_not_copied(kind: str) -> None:
    """Two hundred entries over one half megabyte would be 100 MB; the image is decoded."""
    bomb = bombs.with_exif(kind, bombs.exif_of(200, _MIB // 2))
    assert _peak_bytes(lambda: decode(bomb, max_pixels=LIMIT)) < 16 * _MIB
    assert decode(bomb, max_pixels=LIMIT).size == (8, 8)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_small_exif_is_not_copied_either(kind: str) -> None:
    """Within the limit of 64 KiB two thousand entries over 32 kB would still be 64 MB."""
    bomb = bombs.with_exif(kind, bombs.exif_of(2_000, 32_000))
    assert _peak_bytes(lambda: decode(bomb, max_pixels=LIMIT)) < 16 * _MIB


def test_a_jpegs_directory_of_further_images_is_not_read() -> None:
    """It is built like Exif, and Pillow reads it while it opens the file."""
    bomb = bombs.with_previews(2_000)
    assert _peak_bytes(lambda: decode(bomb, max_pixels=LIMIT)) < 16 * _MIB


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("order", ["<", ">"], ids=["little-endian", "big-endian"])
def test_the_orientation_is_read_beside_other_entries(kind: str, order: str) -> None:
    """Whatever the byte order, and wherever the entry stands."""
    exif = Image.Exif()
    exif.endian = order
    exif[0x010F], exif[0x0112], exif[0x0131] = "maker", 6, "program"
    content = encode(plain_image((40, 20)), kind, exif=exif.tobytes())
    assert decode(content, max_pixels=LIMIT).size == (20, 40)


@cases(
    "bomb words",
    {
        "jpeg-scans": (bombs.scans(MAX_SCANS), f"more than {MAX_SCANS} scans"),
        "scans-behind-an-early-end": (
            b"\xff\xd8\xff\xd9" + bombs.scans(MAX_SCANS)[2:],
            f"more than {MAX_SCANS} scans",
        ),
        "jpeg-segments": (
            b"\xff\xd8" + b"\xff\xfe\0\x02" * 5_000 + encode(plain_image(), "JPEG")[2:],
            "more than 4096 segments",
        ),
        "jpeg-segment-that-readers-measure-differently": (
            b"\xff\xd8\xff\xf0\0\x10" + encode(plain_image(), "JPEG")[2:],
            "no segment FF F0",
        ),
        "png-chunks": (bombs.chunked_png(MAX_CHUNKS + 1), "20000 chunks"),
        "png-texts": (bombs.texts_png(5), "MAX_TEXT_MEMORY"),
        "gif-comment": (bombs.commented_gif(MAX_COMMENT_BLOCKS), "1024 comment blocks"),
        "webp-canvas": (bombs.animated_webp(1, 1_001), "1001 x 1001 = 1002001 pixels"),
    },
)
def test_images_of_too_many_parts(bomb: bytes, words: str) -> None:
    with pytest.raises(BadImageError, match=words):
        decode(bomb, max_pixels=LIMIT)


@pytest.mark.parametrize("padding", [b"\xff", b"\0"], ids=["padding", "zeros"])
def test_padding_between_segments_is_bounded(padding: bytes) -> None:
    """Millions of bytes, through which the next segment would be looked for one by one."""
    image = encode(plain_image(), "JPEG")
    decode(image[:2] + b"\xff" + padding * 1_000 + image[2:], max_pixels=LIMIT)
    for rest in (b"", image[2:]):
        with pytest.raises(BadImageError, match="65536 bytes between its segments"):
            decode(image[:2] + b"\xff" + padding * 5_000_000 + rest, max_pixels=LIMIT)


@cases(
    "content",
    {
        "a-progressive-jpeg-of-thirty-scans": bombs.scans(20),
        "jpeg-and-its-video": encode(plain_image(), "JPEG") + b"\xff\xda" * 5_000,
        "png-and-zeros-behind-it": encode(plain_image(), "PNG") + bytes(300_000),
        "gif-with-a-comment": bombs.commented_gif(100),
        "png-with-a-text": bombs.texts_png(1),
        "gif-and-what-follows": encode(plain_image(), "GIF") + b"\x21\xfe" * 9_000,
    },
)
def test_what_cameras_and_programs_write_is_decoded(content: bytes) -> None:
    found = np.asarray(decode(content, max_pixels=LIMIT)).reshape(-1, 3).mean(axis=0)
    assert found == pytest.approx(RED, abs=4)


def test_a_video_has_one_budget_of_frames_and_pixels() -> None:
    """Some MB hold 2,100 frames of a million pixels: refused before one is decoded."""
    with pytest.raises(BadImageError, match="2100 frames of 1000 x 1000 are more than 2000000000"):
        decode_video(long_video(2_100, 1_000), VIDEO)


def test_frames_are_made_small_one_by_one() -> None:
    """No more than one frame is held in full size, however many are kept."""
    held: list[int] = []

    def keep(frame: Image.Image) -> Image.Image:
        held.append(frame.width)
        return frame.resize((2, 2))

    frames = decode_video(video(10), VIDEO, keep).frames
    assert held == [64] * 10
    assert {(2, 2)} == {frame.size for frame in frames}


def test_a_video_that_grows_in_mid_stream_is_refused() -> None:
    """It announces 64 x 64 pixels; every frame is measured, also those that no one wants."""
    limits = VideoLimits(max_bytes=9_000_000, max_pixels=10_000, max_frames=2)
    with pytest.raises(BadImageError, match="400 x 300 = 120000 pixels"):
        decode_video(bombs.grown_video(400, 300), limits)


def test_no_decoder_but_the_listed_ones_runs_while_a_video_is_probed() -> None:
    """FFmpeg itself refuses the others, before it opens them."""
    level = av.logging.get_level()
    av.logging.set_level(av.logging.ERROR)
    try:
        with (
            av.logging.Capture() as log,
            pytest.raises(BadRecordingError, match="ffv1, which is not read here"),
            opened(video(3, "matroska", "ffv1"), "video"),
        ):
            pass
    finally:
        av.logging.set_level(level)
    assert any("not on whitelist" in line for _, _, line in log)


@cases(
    "bomb words",
    {
        "flac-of-1-hz": (bombs.slow_flac(1), "1 samples a second"),
        "wav-of-10-hz": (bombs.slow_wav(500_000, 10), "10 samples a second"),
        "wav-of-4-khz": (bombs.slow_wav(500_000, 4_000), "longer than 30 seconds"),
        "wav-of-400-khz": (bombs.slow_wav(99, 400_000), "400000 samples a second"),
    },
)
def test_audio_clips_that_grow_when_they_are_resampled(bomb: bytes, words: str) -> None:

    def refused() -> None:
        with pytest.raises(BadRecordingError, match=words):
            decode_audio(bomb, most_samples=MOST_SAMPLES)

    assert _peak_bytes(refused) < 16 * _MIB
