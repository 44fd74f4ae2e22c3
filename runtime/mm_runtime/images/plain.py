"""PURE: files of which every reader shows the same pixels, as they say nothing else.

Such a file may go to a server as it came: no reader repairs it, turns it, or reads colours and
further images in it.
"""

from itertools import islice

from mm_runtime.images.parts import PNG_SIGNATURE, png_chunks
from mm_runtime.images.structure import NEXT_MARKER

JPEG, PNG = "image/jpeg", "image/png"

_SIZES = 0xC0
"""The segment with the size of a baseline JPEG."""

_TABLES = frozenset({0xC4, 0xDB, 0xDD, 0xFE})
"""Tables, the interval of restarts, and comments."""

_SCAN = 0xDA
_END = b"\xff\xd9"
_JFIF = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00"
"""Colours are those of JFIF, and there is no thumbnail behind its head of 16 bytes."""

_MOST_PARTS = 256
"""Parts of a file that are looked at: libpng writes 40 chunks of a screenshot's 300 kB."""

_EIGHT_BITS = 8
_RGB = b"\x08\x02\x00\x00\x00"
"""In the header of a PNG: eight bits, red, green and blue, not interlaced."""


Plain = tuple[str, int, int]
"""Media type, width and height of a file that is nothing but its pixels."""


def plain(encoded: bytes) -> Plain | None:
    """Return what a file is that is nothing but its pixels; None: another one, or of many parts.

    Whether the pixels are complete is not looked at.
    """
    if encoded.startswith(PNG_SIGNATURE):
        return _plain_png(encoded)
    return _plain_jpeg(encoded) if encoded.startswith(_JFIF) else None


def _plain_png(encoded: bytes) -> Plain | None:
    chunks = [*islice(png_chunks(encoded), _MOST_PARTS)]
    at, length, _ = chunks[-1] if chunks else (0, 0, b"")
    kinds = [kind for _, _, kind in chunks]
    pixels = {*kinds[1:-1]} == {b"IDAT"} and (kinds[0], kinds[-1]) == (b"IHDR", b"IEND")
    if not pixels or encoded[24:29] != _RGB or at + 12 + length != len(encoded):
        return None
    return PNG, int.from_bytes(encoded[16:20], "big"), int.from_bytes(encoded[20:24], "big")


def _plain_jpeg(encoded: bytes) -> Plain | None:
    at, size = 4 + 16, (0, 0)
    for _ in range(_MOST_PARTS):
        if encoded[at : at + 1] != b"\xff" or at + 4 >= len(encoded):
            return None
        code, behind = encoded[at + 1], at + 2 + int.from_bytes(encoded[at + 2 : at + 4], "big")
        if code == _SCAN:
            found = NEXT_MARKER.search(encoded, behind)
            ends = found is not None and found[0] + encoded[found.end() :] == _END
            return (JPEG, *size) if ends and all(size) else None
        if code == _SIZES:
            if any(size) or (encoded[at + 4], encoded[at + 9]) != (_EIGHT_BITS, 3):
                return None
            height, width = encoded[at + 5 : at + 7], encoded[at + 7 : at + 9]
            size = int.from_bytes(width, "big"), int.from_bytes(height, "big")
        elif code not in _TABLES:
            return None
        at = behind
    return None
