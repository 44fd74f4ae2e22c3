"""Audio that is cut off, damaged or no audio at all is an error that says so."""

import io
import struct

import av
import numpy as np
import pytest

from mm_runtime.gateway.media.audio import decode_audio
from mm_runtime.gateway.media.container import BadRecordingError
from mm_runtime.serving.preprocess.audio.samples import SAMPLE_RATE
from support.audio_channels import recording, tone
from support.cases import cases
from support.video_files import RED, flipped, plain, video_of

MOST = 30 * SAMPLE_RATE
SECONDS = 2.0
SPOKEN = tone(SECONDS) + np.random.default_rng(1).normal(size=96_000).astype(np.float32) * 0.05
SEEDS = range(20)


def _length(content: bytes) -> float:
    return len(decode_audio(content, most_samples=MOST)) / SAMPLE_RATE


def _is_refused(content: bytes) -> bool:
    try:
        decode_audio(content, most_samples=MOST)
    except BadRecordingError as error:
        return "damaged" in str(error) or "truncated" in str(error)
    return False


FILES = {
    "wav": recording([SPOKEN]),
    "flac": recording([SPOKEN], "flac", "flac"),
    "mp3": recording([SPOKEN], "mp3", "libmp3lame"),
    "aac": recording([SPOKEN], "adts", "aac"),
    "m4a": recording([SPOKEN], "ipod", "aac"),
    "ogg": recording([SPOKEN], "ogg", "libopus"),
    "webm": recording([SPOKEN], "webm", "libopus"),
    "mkv": recording([SPOKEN], "matroska", "libopus"),
}


@pytest.mark.parametrize("kind", [one for one in FILES if one != "aac"])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_truncated(kind: str, part: float) -> None:
    """An upload that broke off; a raw stream of AAC says nowhere how long it is."""
    content = FILES[kind]

    with pytest.raises(BadRecordingError, match=r"damaged|truncated"):
        _length(content[: int(len(content) * part)])


@pytest.mark.parametrize(
    ("kind", "least"), [("flac", 20), ("ogg", 20), ("mkv", 20), ("aac", 15), ("m4a", 15)]
)
def test_flipped_bytes(kind: str, least: int) -> None:
    """Formats with checksums say so each time; AAC has none, and most damage is no AAC."""
    refused = sum(_is_refused(flipped(FILES[kind], seed, kind="audio")) for seed in SEEDS)

    assert refused >= least


def test_a_lost_page() -> None:
    content = recording([np.tile(SPOKEN, 3)], "ogg", "libopus")
    pages = [at for at in range(len(content)) if content[at : at + 4] == b"OggS"]
    assert len(pages) > 5

    with pytest.raises(BadRecordingError, match="pages are missing"):
        _length(content[: pages[3]] + content[pages[4] :])


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFFFFF], ids=hex)
def test_streamed_wavs(size: int) -> None:
    """A program that writes to a pipe does not know how long it will be."""
    content = bytearray(FILES["wav"])
    at = content.index(b"data") + 4
    content[at : at + 4] = struct.pack("<I", size)
    content[4:8] = struct.pack("<I", size)

    assert _length(bytes(content)) == SECONDS


def test_a_wav_that_ends_early() -> None:
    with pytest.raises(BadRecordingError, match=r"its headers promise [0-9]+ bytes, and it has"):
        _length(FILES["wav"][:-96_000])


def test_an_mp3_cut_out_of_a_longer_one() -> None:
    """It begins with a frame whose bits are in one that is not there: players skip it."""
    content = FILES["mp3"]
    frames = [at for at in range(600, len(content)) if content[at : at + 2] == b"\xff\xfb"]

    assert _length(content[frames[5] :]) == pytest.approx(SECONDS, abs=0.5)


def test_tags_around_an_mp3() -> None:
    """Of the first and of the second kind, with an image."""
    begin = b"ID3\x03\0\0" + bytes([0, 0, 8, 0]) + bytes(1024)
    end = b"TAG" + bytes(125)

    assert _length(begin + FILES["mp3"] + end) == pytest.approx(SECONDS, abs=0.1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=["nan", "inf", "minus-inf"])
@pytest.mark.parametrize("codec", ["pcm_f32le", "pcm_f64le"])
def test_samples_that_are_no_numbers(value: float, codec: str) -> None:
    """One is enough; as sixteen bits it would be a click, or silence."""
    samples = SPOKEN.copy()
    samples[1000] = value

    with pytest.raises(BadRecordingError, match="not finite"):
        _length(recording([samples], "wav", codec))


def test_samples_beyond_the_scale() -> None:
    found = decode_audio(recording([SPOKEN * 10], "wav", "pcm_f32le"), most_samples=MOST)

    assert 0.99 < np.abs(found).max() <= 1


@cases(
    "content words",
    {
        "nothing": (b"", "empty"),
        "amr": (b"#!AMR\n" + bytes(99), "but AMR"),
        "aiff": (b"FORM\0\0\0\0AIFF" + bytes(99), "but AIFF"),
        "caf": (b"caff" + bytes(99), "but CAF"),
        "wma": (b"\x30\x26\xb2\x75" + bytes(99), "but ASF"),
        "a-page": (b"<html>Sign in</html>", "they look like an HTML page"),
        "raw-samples": (SPOKEN.tobytes(), "not a recording of a known format"),
        "no-samples": (FILES["wav"][:40] + bytes(4), "no samples|damaged"),
        "a-silent-video": (video_of([plain(RED)] * 3), "no audio stream"),
    },
)
def test_what_is_no_audio_here(content: bytes, words: str) -> None:
    """Is refused by its name, with what can be sent."""
    with pytest.raises(BadRecordingError, match=words):
        _length(content)


def test_the_audio_of_a_video() -> None:
    """Is read, and of several tracks the one that players choose."""
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as output:
        image = output.add_stream("libx264", rate=25)
        tracks = [output.add_stream("aac", rate=48_000, layout="mono") for _ in range(2)]
        assert isinstance(image, av.VideoStream)
        image.width, image.height, image.pix_fmt = 64, 48, "yuv420p"
        tracks[0].disposition = av.stream.Disposition(0)
        tracks[1].disposition = av.stream.Disposition.default
        for number in range(10):
            frame = av.VideoFrame.from_ndarray(plain(RED), format="rgb24")
            frame.pts = number
            output.mux(image.encode(frame))
        output.mux(image.encode(None))
        for track, samples in zip(tracks, (SPOKEN * 0, SPOKEN), strict=True):
            assert isinstance(track, av.AudioStream)
            audio = av.AudioFrame.from_ndarray(samples[None], "fltp", "mono")
            audio.rate = 48_000
            output.mux(track.encode(audio))
            output.mux(track.encode(None))
    found = decode_audio(file.getvalue(), most_samples=MOST)

    assert float(np.sqrt((found**2).mean())) > 0.3
