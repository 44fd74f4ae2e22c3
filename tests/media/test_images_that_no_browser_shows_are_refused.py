"""What a browser could not show complete is an error that says what is wrong, in every format."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from mm_runtime.images.media import BadImageError, decode
from support.cases import cases
from support.image_files import (
    GREY,
    RGB,
    animation,
    broken,
    flipped,
    gif,
    jpeg,
    lzw,
    of_height,
    photograph,
    png,
)
from support.images import encode

LIMIT = 1_000_000
PNG = png((4, 4), 8, RGB, [bytes(range(12))] * 4)
GIF = gif((2, 2), (0, 0, 2, 2), [1, 1, 2, 3])
STREAM = zlib.compress(b"".join(b"\0" + bytes(range(12)) for _ in range(4)))
ANIMATED = animation("PNG")
RESTARTS = jpeg(restart_marker_blocks=2)
SMOOTH = {
    "JPEG": jpeg(),
    "PNG": encode(photograph()),
    "GIF": encode(photograph(), "GIF"),
    "WEBP": encode(photograph(), "WEBP"),
}


def _riff(content: bytes, end: int) -> bytes:
    """Return the beginning of a WebP, with lengths that agree with it."""
    cut = bytearray(content[:end])
    cut[4:8] = struct.pack("<I", end - 8)
    cut[16:20] = struct.pack("<I", end - 20)
    return bytes(cut)


REFUSED = {
    # Checksums.
    "png-pixels-of-another-checksum": (broken(PNG, b"IDAT"), "'IDAT' has another checksum"),
    "png-header-of-another-checksum": (broken(PNG, b"IHDR"), "'IHDR' has another checksum"),
    "png-frame-of-another-checksum": (broken(ANIMATED, b"fdAT"), "'fdAT' has another checksum"),
    "png-stream-of-another-checksum": (
        png((4, 4), 8, RGB, [], stream=STREAM[:-1] + bytes([STREAM[-1] ^ 1])),
        "damaged",
    ),
    # Lengths that a header promises.
    "png-of-fewer-rows": (
        png((4, 400), 8, RGB, [bytes(range(12))] * 4),
        "4 x 400 pixels take 5200 bytes, it holds 52",
    ),
    "png-of-half-a-row": (png((4, 4), 8, RGB, [], stream=zlib.compress(bytes(45))), "truncated"),
    "png-of-a-cut-stream": (png((4, 4), 8, RGB, [], stream=STREAM[:-9]), "truncated"),
    "png-whose-chunk-is-cut": (PNG[:60], "'IDAT' has fewer bytes than"),
    "png-without-width": (png((0, 4), 8, RGB, [b""] * 4), "promises no rows or no columns"),
    "png-without-pixels": (PNG[:33] + PNG[-12:], "damaged"),
    "png-without-its-palette": (png((1, 1), 8, 3, [b"\0"]), "a part of it is missing"),
    "png-of-an-unknown-filter": (
        png((4, 1), 8, GREY, [], stream=zlib.compress(b"\x09abcd")),
        "damaged",
    ),
    "jpeg-of-more-rows": (of_height(jpeg(), 400), "premature end of data segment"),
    "jpeg-of-fewer-rows": (of_height(jpeg(), 16), "extraneous bytes"),
    "jpeg-without-rows": (of_height(jpeg(), 0), "promises no rows or no columns"),
    "jpeg-cut-in-half": (jpeg()[: len(jpeg()) // 2], "premature end of data segment"),
    "jpeg-cut-in-half-and-ended": (
        jpeg()[: len(jpeg()) // 2] + b"\xff\xd9",
        "premature end of data segment",
    ),
    "progressive-jpeg-without-its-end": (jpeg(progressive=True)[:-2], "Premature end"),
    "jpeg-with-a-restart-left-out": (
        RESTARTS[: RESTARTS.index(b"\xff\xd2")] + RESTARTS[RESTARTS.index(b"\xff\xd3") :],
        "instead of RST|extraneous",
    ),
    "gif-that-ends-early": (GIF.replace(lzw([1, 1, 2, 3]), lzw([1, 1])), "truncated"),
    "gif-cut-in-half": (SMOOTH["GIF"][: len(SMOOTH["GIF"]) // 2], "truncated"),
    "gif-cut-in-half-and-ended": (
        SMOOTH["GIF"][: len(SMOOTH["GIF"]) // 2] + b"\0\x3b",
        "truncated",
    ),
    "gif-without-an-image": (GIF[:25] + b"\x3b", "not an image"),
    "webp-cut-in-half": (SMOOTH["WEBP"][: len(SMOOTH["WEBP"]) // 2], "damaged|not an image"),
    "webp-cut-with-lengths-that-agree": (
        _riff(SMOOTH["WEBP"], len(SMOOTH["WEBP"]) // 2 * 2 - 200),
        "damaged|not an image",
    ),
    # Colours that eight bits do not hold.
    "png-of-hdr-pq": (
        png((1, 1), 8, RGB, [b"abc"], (b"cICP", bytes([9, 16, 0, 1]))),
        r"HDR \(PQ\).*save it as sRGB",
    ),
    "png-of-hdr-hlg": (png((1, 1), 8, RGB, [b"abc"], (b"cICP", bytes([9, 18, 0, 1]))), r"\(HLG\)"),
    # Other formats, by their name.
    "tiff": (encode(photograph(), "TIFF"), "they look like TIFF"),
    "bmp": (encode(photograph(), "BMP"), "they look like BMP"),
    "ico": (encode(photograph(), "ICO"), "they look like ICO"),
    "avif": (encode(photograph(), "AVIF"), "they look like AVIF"),
    "jpeg-2000": (encode(photograph(), "JPEG2000"), "they look like JPEG 2000"),
    "pdf": (encode(photograph(), "PDF"), "they look like PDF"),
    "heif": (b"\0\0\0\x18ftypheic" + bytes(16), "they look like HEIF"),
    "mp4": (b"\0\0\0\x18ftypisom" + bytes(16), "they look like MP4"),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "they look like SVG: draw it as PNG"),
    "svg-as-xml": (b"<?xml version='1.0'?>\n<!-- x --><svg/>", "they look like SVG"),
    "html": (b"\n<!DOCTYPE html><title>Sign in</title>", "they look like an HTML page"),
    "json": (b'{"error": "not found"}', "they look like JSON"),
    "text": (b"404 page not found", "they look like text"),
    "nothing": (b"", "0 bytes"),
    "zeros": (bytes(999), "of no format that is known here"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_message_says_what_is_wrong(name: str) -> None:
    content, words = REFUSED[name]
    with pytest.raises(BadImageError, match=words):
        decode(content, max_pixels=LIMIT)


@cases("complete", {"baseline": jpeg(), "progressive": jpeg(progressive=True)})
def test_overwritten_photographs_are_refused(complete: bytes) -> None:
    """Twelve bytes of a photograph: libjpeg makes something up, and says so in a warning.

    A few bytes may still be a valid photograph of something else, which no decoder sees.
    """
    refused = 0
    for seed in range(100):
        try:
            decode(flipped(complete, 12, seed), max_pixels=LIMIT)
        except BadImageError:
            refused += 1
    assert refused >= 95


@pytest.mark.parametrize("kind", SMOOTH)
def test_a_file_that_lacks_its_end_is_refused_or_complete(kind: str) -> None:
    """Wherever it was cut: not one cut file is shown otherwise than the entire one."""
    content = SMOOTH[kind]
    complete = np.asarray(decode(content, max_pixels=LIMIT))
    other = []
    for end in range(1, len(content), max(1, len(content) // 200)):
        try:
            found = np.asarray(decode(content[:end], max_pixels=LIMIT))
        except BadImageError:
            continue
        if not np.array_equal(found, complete):
            other.append(end)
    assert other == []


def test_two_headers_that_disagree_are_refused() -> None:
    """The size that was compared with the limit is the size that is decoded."""
    content = jpeg()
    at = content.index(b"\xff\xc0")
    header = content[at : at + 19]
    larger = header[:5] + struct.pack(">HH", 60_000, 60_000) + header[9:]
    with pytest.raises(BadImageError):
        decode(content[:at] + larger + content[at:], max_pixels=LIMIT)
    with pytest.raises(BadImageError):
        decode(content[: at + 19] + larger + content[at + 19 :], max_pixels=LIMIT)


def test_plain_images_are_shown() -> None:
    for content in (PNG, GIF, ANIMATED, *SMOOTH.values()):
        assert isinstance(decode(content, max_pixels=LIMIT), Image.Image)
