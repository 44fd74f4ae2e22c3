"""Files that were joined, and samples that were cut, are what a player makes of them."""

import struct
from collections.abc import Callable

import numpy as np
import pytest

from mm_runtime.gateway.media.audio import decode_audio
from mm_runtime.gateway.media.container import BadRecordingError
from mm_runtime.gateway.media.wholeness import _ogg_checksum
from mm_runtime.serving.preprocess.audio.samples import SAMPLE_RATE
from support.audio_channels import recording, tone
from support.cases import cases

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
LYRICS = b"LYRICSBEGIN" + b"la" * 99 + b"000209LYRICS200"
FOOTER_ONLY, WITH_HEADER = 0x80000000, 0xA0000000


def _ape(flags: int) -> bytes:
    item = struct.pack("<II", 5, 0) + b"Title\0hello"
    fields = struct.pack("<III", 2000, len(item) + 32, 1)
    ends = [b"APETAGEX" + fields + struct.pack("<I", one) + bytes(8) for one in (flags, 0x80000000)]
    return (ends[0] if flags == WITH_HEADER else b"") + item + ends[1]


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
        "mp3-two": (MP3 + MP3, 2),
        "mp3-id3": (MP3 + ID3 + MP3, 2),
        "mp3-id3v1": (MP3 + ID3V1 + MP3, 2),
        "mp3-ape": (MP3 + _ape(WITH_HEADER) + MP3, 2),
        "mp3-ape-footer": (MP3 + _ape(FOOTER_ONLY) + MP3, 2),
        "mp3-ape-first": (_ape(WITH_HEADER) + MP3, 1),
        "mp3-tags-first": (ID3 + _ape(WITH_HEADER) + MP3, 1),
        "mp3-all-last": (MP3 + _ape(WITH_HEADER) + LYRICS + ID3V1, 1),
        "aac-id3-each": ((ID3 + AAC) * 3, 3),
        "flac-id3": (ID3 + FLAC, 1),
        "ogg-chain": (_serial(OPUS, 1) + _serial(OPUS, 2), 2),
        "ogg-chain-one-number": (_serial(OPUS, 1) * 3, 3),
        "ogg-chain-of-mono-and-stereo": (_serial(OPUS, 1) + OPUS_STEREO, 2),
        "ogg-chain-of-two-codecs": (_serial(OPUS, 1) + OGG_FLAC, 2),
    },
)
def test_joined_files(content: bytes, seconds: int) -> None:
    assert _length(content) == pytest.approx(seconds, abs=0.07 * seconds)


def _louder(content: bytes, decibels: float) -> bytes:
    at = content.index(b"OpusHead") + 16
    gain = struct.pack("<h", round(256 * decibels))
    return _serial(content[:at] + gain + content[at + 2 :], 1)


@cases(
    "links levels",
    {
        "equal": ((0, 0), (0.354, 0.354)),
        "second-is-quieter": ((0, -6.02), (0.354, 0.177)),
        "first-is-quieter": ((-6.02, 0), (0.177, 0.354)),
        "three": ((-6.02, -12.04, -6.02), (0.177, 0.0885, 0.177)),
    },
)
def test_each_link_of_a_chain_has_its_own_gain(
    links: tuple[float, ...], levels: tuple[float, ...]
) -> None:
    """And its own beginning, which is not played: the level of each half second is that of all."""
    content = b"".join(_louder(OPUS, one) for one in links)
    found = decode_audio(content, most_samples=30 * SAMPLE_RATE)
    halves = found[: len(links) * SAMPLE_RATE].reshape(2 * len(links), -1)
    expected = [level for level in levels for _ in range(2)]
    assert np.sqrt((halves**2).mean(axis=1)) == pytest.approx(expected, rel=0.03)


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
        lambda: MP3 + ID3[:-500] + MP3,
        lambda: _serial(OPUS, 1)[:-1] + _serial(OPUS, 1),
    ],
    ids=["words", "a-tag-that-was-cut", "a-page-that-was-cut"],
)
def test_what_is_no_tag_is_damage(spoil: Callable[[], bytes]) -> None:
    with pytest.raises(BadRecordingError, match=r"damaged.*send it again"):
        _length(spoil())
