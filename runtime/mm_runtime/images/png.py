"""What a PNG says besides its pixels, read as browsers read it: checksums, colours, transparency.

Pure functions over the bytes of the file, and the mask of its transparent colour.
"""

import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.ImageFile import ImageFile

from mm_runtime.images.parts import png_chunks

_GREY, _RGB = 0, 2
"""Colour types that may have one transparent colour; palettes have an alpha for each entry."""

_FRAMES = frozenset({b"acTL", b"fcTL", b"fdAT"})
"""Chunks of animations: ancillary by name, and nothing is shown without them."""

_DEEP = 16

_SPREAD = {2: 85, 4: 17}
"""What Pillow multiplies grey of so many bits with: 3, the most of two bits, is 255."""

_HEADER_BYTES = 13

_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Values of each colour type."""

_PASSES = (
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)
"""Passes of an interlaced file: first column and row, and steps to the next ones."""

_PIECE = 1 << 20


class PngDamageError(ValueError):
    """The bytes are not those that were written. The message is for the client."""


@dataclass(frozen=True, slots=True)
class Png:
    """What a PNG's chunks say; `file` is without those that browsers pass over as damaged."""

    file: bytes
    chunks: dict[bytes, bytes]

    @property
    def depth(self) -> int:
        return self.chunks[b"IHDR"][8]

    @property
    def colour_type(self) -> int:
        return self.chunks[b"IHDR"][9]

    @property
    def transparent(self) -> tuple[int, ...] | None:
        """The one transparent colour, in the depth of the file; None: there is none."""
        channels = _CHANNELS.get(self.colour_type, 0)
        content = self.chunks.get(b"tRNS", b"")
        if self.colour_type not in (_GREY, _RGB) or len(content) < 2 * channels:
            return None
        mask = (1 << self.depth) - 1
        return tuple(v & mask for v in np.frombuffer(content, ">u2", channels).tolist())


def read_png(encoded: bytes) -> Png:
    """Return what a PNG says, its checksums compared.

    Raises:
        PngDamageError: a chunk without which nothing is shown is cut or has another checksum.
    """
    found: dict[bytes, bytes] = {}
    damaged: list[slice] = []
    pixels = False
    for at, length, kind in png_chunks(encoded):
        end = at + 12 + length
        needed = not kind[:1].islower() or kind in _FRAMES
        complete = end <= len(encoded)
        stored = int.from_bytes(encoded[end - 4 : end], "big")
        if not complete or zlib.crc32(memoryview(encoded)[at + 4 : end - 4]) != stored:
            if needed and (complete or kind != b"IEND"):
                raise PngDamageError(
                    f"its chunk {kind.decode('ascii', 'replace')!r} "
                    + ("has another checksum" if complete else f"has fewer bytes than {length}")
                )
            damaged.append(slice(at, end))
            continue
        palette = len(found.get(b"PLTE", b"")) if found.get(b"IHDR", b"")[9:10] == b"\3" else end
        if kind == b"tRNS" and 3 * length > palette:  # libpng passes over it, too
            damaged.append(slice(at, end))
            continue
        pixels = pixels or kind == b"IDAT"
        if not pixels and kind in _KNOWN:
            found.setdefault(kind, encoded[at + 8 : end - 4])
    if len(found.get(b"IHDR", b"")) != _HEADER_BYTES:
        raise PngDamageError("it does not begin with the chunk 'IHDR'")
    return Png(_without(encoded, damaged), found)


_KNOWN = frozenset({b"IHDR", b"PLTE", b"tRNS", b"cICP"})


def _without(encoded: bytes, parts: Sequence[slice]) -> bytes:
    kept, at = [], 0
    for part in parts:
        kept.append(encoded[at : part.start])
        at = part.stop
    return b"".join((*kept, encoded[at:])) if parts else encoded


def clear_pixels(png: Png, decoded: Image.Image) -> Image.Image | None:
    """Return which pixels have the one transparent colour, as a mask; None: the file has none.

    Pillow would compare the colour as stored with pixels that it has made eight bits of.
    """
    colour = png.transparent
    if colour is None:
        return None
    if png.depth == _DEEP and png.colour_type == _RGB:
        # Pillow's unpackers take the upper byte of each channel, or the lower one.
        clear = _equal(_unpacked(png, "RGB;16B"), [value >> 8 for value in colour])
        clear &= _equal(_unpacked(png, "RGB;16L"), [value & 0xFF for value in colour])
    else:
        spread = _SPREAD.get(png.depth, 1)
        clear = _equal(decoded, [value * spread for value in colour])
    return Image.fromarray(clear)


def check_complete(png: Png, decoded: Image.Image) -> None:
    """Check that the file has the rows that its header promises; Pillow leaves the others black."""
    width, height, interlaced = *decoded.size, bool(png.chunks[b"IHDR"][12])
    if not interlaced and decoded.crop((0, height - 1, width, height)).getbbox(alpha_only=False):
        return  # its last row has been written
    bits = png.depth * _CHANNELS.get(png.colour_type, 1)
    passes = _PASSES if interlaced else ((0, 0, 1, 1),)
    sizes = (
        (-(-(width - left) // across), -(-(height - top) // down))
        for left, top, across, down in passes
    )
    promised = sum(rows * (1 + -(-columns * bits // 8)) for columns, rows in sizes if columns > 0)
    inflate, found = zlib.decompressobj(), 0
    for at, length, kind in png_chunks(png.file):
        rest = png.file[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        while rest and found < promised and not inflate.eof:
            found += len(inflate.decompress(rest, _PIECE))
            rest = inflate.unconsumed_tail
    if found < promised:
        raise PngDamageError(f"{width} x {height} pixels take {promised} bytes, it holds {found}")


def _unpacked(png: Png, rawmode: str) -> ImageFile:
    image = Image.open(io.BytesIO(png.file), formats=("PNG",))
    image.tile = [one._replace(args=rawmode) for one in image.tile]
    image.load()
    return image


def _equal(image: Image.Image, colour: Sequence[int]) -> NDArray[np.bool_]:
    pixels = np.asarray(image).reshape(image.height, image.width, len(colour))
    found: NDArray[np.bool_] = (pixels == np.asarray(colour)).all(axis=-1)
    return found
