"""PURE: where the parts of a PNG, a WebP or a GIF are, as their headers say."""

from collections.abc import Iterator

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
GIF_HEADER_BYTES, GIF_IMAGE_BYTES = 13, 10
GIF_EXTENSION, GIF_IMAGE, GIF_END = 0x21, 0x2C, 0x3B
_PALETTE = 0x80

MAX_BLOCKS = 400_000
"""Data blocks of a GIF, each a turn of an interpreted loop; encoders write blocks of 255 bytes:
80,000 for 20 MB."""


def is_webp(encoded: bytes) -> bool:
    return encoded[:4] == b"RIFF" and encoded[8:12] == b"WEBP"


def png_chunks(encoded: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield place, length and kind of each chunk up to the last; what follows it is no PNG's."""
    at = len(PNG_SIGNATURE)
    while at + 8 <= len(encoded):
        length, kind = int.from_bytes(encoded[at : at + 4], "big"), encoded[at + 4 : at + 8]
        yield at, length, kind
        if kind == b"IEND":
            return
        at += 12 + length


def webp_chunks(encoded: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield place, length and kind of each chunk."""
    at = 12
    while at + 8 <= len(encoded):
        length = int.from_bytes(encoded[at + 4 : at + 8], "little")
        yield at, length, encoded[at : at + 4]
        at += 8 + length + length % 2


def palette_bytes(flags: bytes) -> int:
    return 3 * 2 ** (1 + flags[0] % 8) if flags and flags[0] & _PALETTE else 0


def skip_blocks(encoded: bytes, at: int) -> tuple[int, int]:
    """Return where a row of a GIF's data blocks ends, and how many there are, up to the most."""
    found = 0
    while at < len(encoded) and encoded[at] and found <= MAX_BLOCKS:
        at += 1 + encoded[at]
        found += 1
    return at + 1, found
