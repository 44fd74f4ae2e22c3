"""JPEG files -> pixels, with libjpeg's warnings as errors: it makes up what is missing.

Pillow and browsers decode with the same library and drop its warnings: a flipped byte is a grey or
coloured rest of the image, in silence.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

COLOURS = {"L": "GRAY", "RGB": "RGB", "CMYK": "CMYK"}
"""Pillow's modes of JPEG files -> what the decoder calls them."""

_MOST_REPAIRS = 16
"""For one file, each a decoding of it: as many gaps between segments as any camera leaves."""

_EXTRA = re.compile(r"(\d+) extraneous bytes before marker 0x([0-9a-f]{2})")
_UNFINISHED = "Premature end of JPEG file"
_HARMLESS = (
    *("unknown JFIF revision", "Unknown Adobe color transform", "Invalid SOS parameters"),
    "Inconsistent progression sequence",
)
"""Odd headers and scans, whose pixels are complete."""

_LEAST: Mapping[str, Any] = {"colorspace": "GRAY", "min_height": 1, "min_width": 1, "min_factor": 8}
"""Every bit is read, and a pixel of 64 made: libjpeg's warnings are the same, for a third less."""

_PADDING = b"\0\xff"

_END = b"\xff\xd9"


class JpegDamageError(ValueError):
    """Some pixels are not in the file. The message is libjpeg's."""


def decode_jpeg(
    encoded: bytes, mode: str, size: tuple[int, int], *, progressive: bool
) -> NDArray[np.uint8]:
    """Return the pixels of a JPEG of the mode (L, RGB or CMYK) and size that its header says.

    Padding between segments, and a missing end behind the last row, are what cameras and
    cut transfers leave of a complete image: they are repaired. Of a progressive one a missing end
    may be missing scans, which refine the image.

    Raises:
        JpegDamageError: libjpeg would conceal damage.
    """
    for _ in range(_MOST_REPAIRS):
        try:
            return _pixels(encoded, mode, size, strict=True)
        except ValueError as error:
            problem = str(error)
        if any(one in problem for one in _HARMLESS):
            return _pixels(encoded, mode, size, strict=False)
        if (repaired := _repaired(encoded, problem, progressive=progressive)) is None:
            break
        encoded = repaired
    raise JpegDamageError(problem)


def is_complete(encoded: bytes) -> bool:
    """Return whether libjpeg conceals nothing of a baseline JPEG of JFIF."""
    try:
        simplejpeg.decode_jpeg(encoded, strict=True, **_LEAST)
    except ValueError:
        return False
    return True


def _pixels(encoded: bytes, mode: str, size: tuple[int, int], *, strict: bool) -> NDArray[np.uint8]:
    height, width, *_ = simplejpeg.decode_jpeg_header(encoded, strict=strict)
    if (width, height) != size:
        raise ValueError(f"one header says {size[0]} x {size[1]}, another {width} x {height}")
    pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(encoded, COLOURS[mode], strict=strict)
    # Four colours are stored inverted, as browsers and Pillow read every JPEG of them.
    return np.invert(pixels) if mode == "CMYK" else pixels[..., 0] if mode == "L" else pixels


def _repaired(encoded: bytes, problem: str, *, progressive: bool) -> bytes | None:
    if _UNFINISHED in problem and not progressive:
        # With its end in place libjpeg distinguishes missing rows from a missing end.
        return None if encoded.endswith(_END) else encoded + _END
    if (found := _EXTRA.search(problem)) is None:
        return None
    count, marker = int(found[1]), b"\xff" + bytes.fromhex(found[2])
    at = encoded.find(marker)
    for _ in range(_MOST_REPAIRS):
        if at >= count and not encoded[at - count : at].strip(_PADDING):
            return encoded[: at - count] + encoded[at:]
        at = encoded.find(marker, at + 1)
    return None
