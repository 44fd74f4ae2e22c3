"""Images to send: PNG files of random coloured blocks, so that no two have the same features."""

import base64
import random
import struct
import zlib

BLOCK = 16
"""Pixels of one block's edge: about what a vision encoder takes as one patch."""


def random_image_url(size: int, source: random.Random) -> str:
    """Return a square image as a data URL."""
    return data_url(png(size, source), "image/png")


def data_url(content: bytes, kind: str) -> str:
    """Return bytes as a data URL."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def png(size: int, source: random.Random) -> bytes:
    """Return a square RGB image as a PNG file (RFC 2083: one IDAT, no filter)."""
    rows = []
    for _ in range(-(-size // BLOCK)):
        blocks = (source.randbytes(3) * BLOCK for _ in range(-(-size // BLOCK)))
        rows += [b"\0" + b"".join(blocks)[: 3 * size]] * BLOCK
    pixels = zlib.compress(b"".join(rows[:size]), level=1)
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, body) for kind, body in chunks)


def _chunk(kind: bytes, body: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + body))
    return struct.pack(">I", len(body)) + kind + body + checksum
