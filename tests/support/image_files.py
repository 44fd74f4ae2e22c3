"""Files of images, written chunk by chunk: what no encoder writes, and what it hides."""

import struct
import zlib
from collections.abc import Sequence

import numpy as np
from PIL import Image

from support.images import encode

Chunk = tuple[bytes, bytes]

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
"""Colour types of PNG."""

COLOURS = bytes([10, 20, 30, 200, 100, 50, 0, 255, 0, 1, 2, 3])
"""A palette of four."""


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + _crc(kind + content)


def _crc(content: bytes) -> bytes:
    return struct.pack(">I", zlib.crc32(content))


def png(
    size: tuple[int, int],
    depth: int,
    colour_type: int,
    rows: Sequence[bytes],
    *before: Chunk,
    stream: bytes | None = None,
) -> bytes:
    header = struct.pack(">IIBBBBB", *size, depth, colour_type, 0, 0, 0)
    stream = zlib.compress(b"".join(b"\0" + row for row in rows)) if stream is None else stream
    chunks = [(b"IHDR", header), *before, (b"IDAT", stream), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*one) for one in chunks)


def words(*values: int) -> bytes:
    return struct.pack(f">{len(values)}H", *values)


def clear(*colour: int) -> Chunk:
    return b"tRNS", words(*colour)


def gamma(value: int) -> Chunk:
    return b"gAMA", struct.pack(">I", value)


def broken(content: bytes, kind: bytes) -> bytes:
    at = content.index(kind)
    end = at + 4 + int.from_bytes(content[at - 4 : at], "big")
    return content[:end] + bytes([content[end] ^ 1]) + content[end + 1 :]


def lzw(pixels: Sequence[int]) -> bytes:
    """Return indices of four colours as a GIF has them: three bits each, and no dictionary."""
    codes = [code for one in pixels for code in (4, one)] + [5]
    bits = "".join(f"{code:03b}"[::-1] for code in codes)
    packed = bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, len(bits), 8))
    return bytes([2, len(packed)]) + packed + b"\0"


def gif(
    canvas: tuple[int, int],
    frame: tuple[int, int, int, int],
    pixels: Sequence[int],
    transparent: int | None = None,
    background: int = 1,
) -> bytes:
    """Return a GIF of four colours whose one frame is at left, top, of width, height."""
    head = b"GIF89a" + struct.pack("<HHBBB", *canvas, 0xF1, background, 0) + COLOURS
    if transparent is not None:
        head += b"\x21\xf9\x04" + bytes([1, 0, 0, transparent, 0])
    return head + b"\x2c" + struct.pack("<HHHHB", *frame, 0) + lzw(pixels) + b"\x3b"


def photograph(size: tuple[int, int] = (64, 48)) -> Image.Image:
    noise = np.random.default_rng(5).integers(0, 255, (12, 16, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)


def jpeg(**options: object) -> bytes:
    return encode(photograph(), "JPEG", quality=90, **options)


def of_height(content: bytes, height: int) -> bytes:
    at = next(content.index(mark) for mark in (b"\xff\xc0", b"\xff\xc2") if mark in content)
    return content[: at + 5] + words(height) + content[at + 7 :]


def without_segment(content: bytes, marker: bytes) -> bytes:
    at = content.index(marker)
    return content[:at] + content[at + 2 + int.from_bytes(content[at + 2 : at + 4], "big") :]


def flipped(content: bytes, places: int, seed: int) -> bytes:
    random = np.random.default_rng(seed)
    damaged = bytearray(content)
    for at in random.integers(len(content) // 2, len(content) - 2, places):
        damaged[at] ^= int(random.integers(1, 255))
    return bytes(damaged)


def animation(kind: str, **options: object) -> bytes:
    """Return an animation of blue and green, behind one of red."""
    red, *rest = (
        Image.new("RGB", (4, 4), colour) for colour in ((255, 0, 0), (0, 0, 255), (0, 255, 0))
    )
    return encode(red, kind, save_all=True, append_images=rest, **options)


def pixels_of(image: Image.Image) -> list[tuple[int, ...]]:
    return [tuple(one) for one in np.asarray(image).reshape(-1, 3).tolist()]
