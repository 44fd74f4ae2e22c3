"""What a recording's times leave out is silence, so what is said later keeps its time."""

import io
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import cast

import av
import numpy as np
import pytest

from mm_runtime.gateway.media.audio import decode_audio
from mm_runtime.gateway.media.container import BadRecordingError
from mm_runtime.gateway.media.wholeness import _ogg_checksum
from mm_runtime.serving.preprocess.audio.samples import SAMPLE_RATE
from support.audio_channels import RATE, recording, tone
from support.cases import cases
from support.video_files import RED, plain

SECONDS = 3
MOST = 30 * SAMPLE_RATE
FORMATS = [("mp4", "aac"), ("matroska", "libopus"), ("webm", "libopus"), ("ogg", "libopus")]

Shift = Callable[[float], float | None]


def _hole(second: float) -> float | None:
    return None if 1 <= second < 2 else second


def _later(second: float) -> float:
    return second + (second >= 1)


def _late(second: float) -> float:
    return second + 2


def _shifted(
    container: str,
    codec: str,
    shift: Shift,
    *,
    images: bool = False,
    options: dict[str, str] | None = None,
) -> bytes:
    """Return a tone of some seconds whose packets lie elsewhere; those at None are left out."""
    file = io.BytesIO()
    with av.open(file, "w", format=container, options=options or {}) as output:
        if images:
            video = cast("av.VideoStream", output.add_stream("mpeg4", rate=25))
            video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        audio = cast("av.AudioStream", output.add_stream(codec, rate=RATE, layout="mono"))
        for _ in range(images * 50):
            frame = av.VideoFrame.from_ndarray(plain(RED), format="rgb24")
            output.mux(video.encode(frame))
        spoken = av.AudioFrame.from_ndarray(tone(SECONDS)[None], "fltp", "mono")
        spoken.rate, spoken.pts, spoken.time_base = RATE, 0, Fraction(1, RATE)
        for packet in [*audio.encode(spoken), *audio.encode(None)]:
            assert packet.pts is not None
            moved = shift(float(packet.pts * packet.time_base))
            if moved is not None:
                packet.pts = packet.dts = round(moved / packet.time_base)
                output.mux(packet)
    return file.getvalue()


def _audible(content: bytes) -> list[bool]:
    """Return whether there is a tone in the middle of each second."""
    found = decode_audio(content, most_samples=MOST)
    seconds = np.pad(found, (0, -len(found) % SAMPLE_RATE)).reshape(-1, SAMPLE_RATE)
    middle = np.abs(seconds[:, SAMPLE_RATE // 3 : SAMPLE_RATE // 2]).max(axis=1) > 0.1
    return list(middle[: round(len(found) / SAMPLE_RATE)])


@pytest.mark.parametrize(("container", "codec"), FORMATS)
@pytest.mark.parametrize(
    ("shift", "audible"),
    [(_hole, [True, False, True]), (_later, [True, False, True, True])],
    ids=["packets-are-gone", "times-jump"],
)
def test_a_gap(container: str, codec: str, shift: Shift, audible: list[bool]) -> None:
    assert _audible(_shifted(container, codec, shift)) == audible


@pytest.mark.parametrize("container", ["mp4", "matroska"])
def test_audio_that_begins_after_the_image(container: str) -> None:
    """Is silent until then; where there is nothing else it begins with the file, as in players."""
    assert _audible(_shifted(container, "aac", _late, images=True)) == [False] * 2 + [True] * 3
    assert _audible(_shifted(container, "aac", _late)) == [True] * 3


def test_a_gap_of_years() -> None:
    """Costs nothing: it is longer than the model reads."""
    content = _shifted("matroska", "libopus", lambda second: second + (second >= 1) * 1e6)

    with pytest.raises(BadRecordingError, match="longer than 30 seconds"):
        _audible(content)


def test_times_that_go_back() -> None:
    fragments = {
        "movflags": "frag_keyframe+empty_moov+default_base_moof",
        "frag_duration": "500000",
    }
    content = _shifted("mp4", "aac", lambda second: second, options=fragments)
    begins = [at - 4 for at in range(len(content)) if content[at : at + 4] == b"moof"]

    with pytest.raises(BadRecordingError, match=r"go back from 2\.\d+ to 1\.\d+ seconds"):
        _audible(content[: begins[4]] + content[begins[2] :])


def test_a_rate_that_changes() -> None:
    """Raw AAC of two programs, joined."""
    content = recording([tone()], "adts", "aac")
    slower = recording([tone(rate=24_000)], "adts", "aac", rate=24_000)

    assert _audible(content + slower) == [True] * 2


SPOKEN = tone(1.0)
MP3 = recording([SPOKEN], "mp3", "libmp3lame")
AAC = recording([SPOKEN], "adts", "aac")
FLAC = recording([SPOKEN], "flac", "flac")
OPUS = recording([SPOKEN], "ogg", "libopus")
WAV = recording([SPOKEN])
STEREO = recording([SPOKEN, SPOKEN])
OPUS_STEREO = recording([SPOKEN, SPOKEN], "ogg", "libopus")
OGG_FLAC = recording([SPOKEN], "ogg", "flac")
ID3 = b"ID3\x03\0\0" + bytes([0, 0, 8, 0]) + bytes(1024)
ID3V1 = b"TAG" + bytes(125)


def _serial(content: bytes, number: int) -> bytes:
    """Return an Ogg of another serial number, its checksums right."""
    pages, at = b"", 0
    while at < len(content):
        body = at + 27 + content[at + 26]
        end = body + sum(content[at + 27 : body])
        page = bytearray(content[at:end])
        page[14:18] = struct.pack("<I", number)
        page[22:26] = struct.pack("<I", _ogg_checksum(bytes(page)))
        pages, at = pages + page, end
    return pages


def _of_size(content: bytes, change: int, end: bytes = b"") -> bytes:
    """Return a WAV whose data has more or fewer bytes, as its header says, and what follows."""
    at = content.index(b"data") + 8
    size = len(content) - at + change
    kept = content[at : at + min(size, len(content) - at)]
    return content[: at - 4] + struct.pack("<I", size) + kept + b"\1" * max(change, 0) + end


def _length(content: bytes) -> float:
    return len(decode_audio(content, most_samples=30 * SAMPLE_RATE)) / SAMPLE_RATE


@cases(
    "content seconds",
    {
        "mp3-id3v1": (MP3 + ID3V1 + MP3, 2),
        "mp3-id3-first": (ID3 + ID3 + MP3, 1),
        "aac-id3-each": ((ID3 + AAC) * 3, 3),
        "flac-id3": (ID3 + FLAC, 1),
    },
)
def test_tags(content: bytes, seconds: int) -> None:
    assert _length(content) == pytest.approx(seconds, abs=0.07 * seconds)


@pytest.mark.parametrize("change", [-1, 1, -3])
@pytest.mark.parametrize("end", [b"", b"\0LIST\4\0\0\0INFO"], ids=["end", "list"])
@pytest.mark.parametrize("wav", [WAV, STEREO], ids=["mono", "stereo"])
def test_a_wav_ends_within_a_sample(wav: bytes, change: int, end: bytes) -> None:
    """The part is dropped; the samples before are those of the file."""
    found = decode_audio(_of_size(wav, change, end), most_samples=30 * SAMPLE_RATE)

    expected = decode_audio(wav, most_samples=30 * SAMPLE_RATE)[: len(found)]
    np.testing.assert_allclose(found[:-64], expected[:-64], atol=1e-3)
    assert len(found) == pytest.approx(SAMPLE_RATE, abs=2)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF], ids=hex)
def test_a_streamed_wav_ends_within_a_sample(size: int) -> None:
    at = WAV.index(b"data") + 4
    assert _length(WAV[:at] + struct.pack("<I", size) + WAV[at + 4 :] + b"\1") == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda: MP3 + b"not music at all " * 50 + MP3,
        lambda: MP3 + ID3 + MP3,
        lambda: _serial(OPUS, 1)[:-1] + _serial(OPUS, 1),
    ],
    ids=["words", "joined-with-a-tag", "a-page-that-was-cut"],
)
def test_what_lies_between_is_damage(spoil: Callable[[], bytes]) -> None:
    with pytest.raises(BadRecordingError, match=r"damaged.*send it again"):
        _length(spoil())


@cases("serial", {"of-its-own": 2, "of-the-first": 1})
def test_a_chain_is_refused(serial: int) -> None:
    with pytest.raises(BadRecordingError, match="chain of several; send each"):
        _length(_serial(OPUS, 1) + _serial(OPUS, serial))
