"""PURE: files of which every reader shows the same pixels, as they say nothing else.

Such a file may go to a server as it came: no reader repairs it, turns it, or reads colours and
further images in it.
"""

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

_EIGHT_BITS = 8
_RGB = b"\x08\x02\x00\x00\x00"
"""In the header of a PNG: eight bits, red, green and blue, not interlaced."""


def plain_type(encoded: bytes) -> str:
    """Return the media type of a file that is nothing but its pixels; empty: another one.

    Of one that was decoded: whether the pixels are complete is not looked at.
    """
    if encoded.startswith(PNG_SIGNATURE):
        return PNG if _is_plain_png(encoded) else ""
    return JPEG if encoded.startswith(_JFIF) and _is_plain_jpeg(encoded) else ""


def _is_plain_png(encoded: bytes) -> bool:
    chunks = [*png_chunks(encoded)]
    at, length, _ = chunks[-1] if chunks else (0, 0, b"")
    kinds = [kind for _, _, kind in chunks]
    pixels = {*kinds[1:-1]} == {b"IDAT"} and (kinds[0], kinds[-1]) == (b"IHDR", b"IEND")
    return pixels and encoded[24:29] == _RGB and at + 12 + length == len(encoded)


def _is_plain_jpeg(encoded: bytes) -> bool:
    at, sized = 4 + 16, False
    while encoded[at : at + 1] == b"\xff" and at + 4 < len(encoded):
        code, behind = encoded[at + 1], at + 2 + int.from_bytes(encoded[at + 2 : at + 4], "big")
        if code == _SCAN:
            found = NEXT_MARKER.search(encoded, behind)
            return sized and found is not None and found[0] + encoded[found.end() :] == _END
        if code == _SIZES:
            if sized or (encoded[at + 4], encoded[at + 9]) != (_EIGHT_BITS, 3):
                return False
            sized = True
        elif code not in _TABLES:
            return False
        at = behind
    return False
