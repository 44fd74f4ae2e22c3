"""PURE: how many pixels an image of a `data:` URL has, by its header; nothing is decoded.

Only the formats that OpenAI's clients send: PNG, JPEG, GIF, WebP. What is none of them, damaged or
behind an address has no size here, and what a header says wrongly makes a wrong estimate only.
"""

import binascii
import struct

_SHORT_CHARACTERS = 1024
"""Characters of base64: sizes of PNG, GIF and WebP are in the first 30 bytes."""

_JPEG_CHARACTERS = 96 * 1024
"""A JPEG's size follows its metadata, a segment of which has up to 64 KiB. Decoded in 0.2 ms."""

_MOST_PIXELS = 1 << 30
"""Limit of what is believed: a header may say anything."""

_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""Markers of a JPEG's frame header, which has its size."""

_JPEG_START, _JPEG_SCAN = b"\xff\xd8", 0xDA


def pixels_of(url: str) -> int:
    """Return width times height of the image of a URL; 0: not known."""
    if url[:5].lower() != "data:":
        return 0
    start = url.find(",", 0, _SHORT_CHARACTERS) + 1
    if not start or not url[:start].rstrip(", ").lower().endswith(";base64"):
        return 0
    head = _decoded(url[start : start + _SHORT_CHARACTERS])
    if head.startswith(_JPEG_START):
        head = _decoded(url[start : start + _JPEG_CHARACTERS])
    try:
        width, height = _size(head)
    except (struct.error, IndexError):
        return 0
    return min(width * height, _MOST_PIXELS)


def _decoded(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text[: len(text) // 4 * 4])
    except ValueError:
        return b""


def _size(head: bytes) -> tuple[int, int]:
    """Return width and height, 0 of what is no image."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return struct.unpack_from(">II", head, 16)
    if head[:6] in {b"GIF87a", b"GIF89a"}:
        return struct.unpack_from("<HH", head, 6)
    if head.startswith(_JPEG_START):
        return _jpeg_size(head)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp_size(head)
    return 0, 0


def _jpeg_size(head: bytes) -> tuple[int, int]:
    at = len(_JPEG_START)
    while head[at] == 0xFF:  # noqa: PLR2004  # each segment begins with it
        marker = head[at + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", head, at + 5)
            return width, height
        if marker == _JPEG_SCAN:
            break
        # A filler byte, or a segment with its length.
        at += 1 if marker == 0xFF else 2 + max(2, struct.unpack_from(">H", head, at + 2)[0])  # noqa: PLR2004
    return 0, 0


def _webp_size(head: bytes) -> tuple[int, int]:
    match head[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", head, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", head, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return (
                int.from_bytes(_bytes(head, 24), "little") + 1,
                int.from_bytes(_bytes(head, 27), "little") + 1,
            )
    return 0, 0


def _bytes(head: bytes, at: int) -> bytes:
    return struct.unpack_from("3s", head, at)[0]  # type: ignore[no-any-return]
