"""Colours of files -> sRGB, which models were trained on and screens of browsers show.

A profile counts where a browser lets it count: one that is broken, or of another number of
channels, is as if it were not there.
"""

import io
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms

MAX_PROFILE_BYTES = 4 * 1024 * 1024
"""Size of a profile that is read at all. Printers' profiles of four colours have 0.5 to 2 MB."""

_SPACES = {
    "GRAY": {"L": "L", "LA": "L"},
    "RGB ": {"L": "RGB", "LA": "RGBA", "RGB": "RGB", "RGBA": "RGBA"},
    "CMYK": {"CMYK": "CMYK"},
}
"""Colour space of a profile -> Pillow's modes of images that it is for, and in which it is applied.
Grey images may have one of colours, as in browsers."""

_MOST_APART = 1
"""Levels of 255 by which profiles of sRGB of different makers differ: nothing is converted."""

_GRID = np.linspace(0, 255, 9).astype(np.uint8)
"""Values of each channel, to compare a profile with sRGB: 729 colours."""

Curve = tuple[float, ...]
"""Parameters of ICC's parametric curve: gamma alone, or gamma, a, b, c and d."""

SRGB_CURVE: Curve = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
_BT709_CURVE: Curve = (1 / 0.45, 1 / 1.099, 0.099 / 1.099, 1 / 4.5, 0.081)

_BT709 = (0.3127, 0.3290, 0.64, 0.33, 0.30, 0.60, 0.15, 0.06)
"""Chromaticities of white, red, green and blue, x and y, as in a PNG's cHRM."""

PRIMARIES = {
    1: _BT709,
    9: (0.3127, 0.3290, 0.708, 0.292, 0.170, 0.797, 0.131, 0.046),
    12: (0.3127, 0.3290, 0.680, 0.320, 0.265, 0.690, 0.150, 0.060),
}
"""By their code points of ITU-T H.273."""

_CURVES: Mapping[int, Curve] = {
    **dict.fromkeys((1, 6, 14, 15), _BT709_CURVE),
    4: (2.2,),
    5: (2.8,),
    8: (1.0,),
    13: SRGB_CURVE,
}
_HDR = {16: "PQ", 18: "HLG"}
"""Code points of ITU-T H.273, which a PNG's cICP has."""
_RGB_OF_ALL_LEVELS = [0, 1]
_CORNERS = struct.Struct(">8I")

_LEAST_VOLUME = 1e-6
"""Volume of three primaries that are no line: those of sRGB span 0.2."""

_CURVE_TYPES = {1: 0, 5: 3}
"""Number of parameters -> ICC's function type."""

# Of Bradford, as ICC adapts white to D50.
_CONES = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
_D50 = np.array([0.9642, 1.0, 0.8249])


class HdrError(ValueError):
    """The colours have no counterpart among eight bits without a choice. For the client."""


def to_srgb(image: Image.Image, profile: bytes) -> Image.Image:
    """Return the image in sRGB, itself where it is; L and CMYK become RGB, alpha stays."""
    if not profile or len(profile) > MAX_PROFILE_BYTES:
        return image
    mode, transform = _transform(profile, image.mode)
    if transform is None:
        return image
    converted = transform.apply(image.convert(mode))
    if mode == "L" and "A" in image.mode:
        converted.putalpha(image.getchannel("A"))
    return converted


@lru_cache(maxsize=4)
def _transform(profile: bytes, mode: str) -> tuple[str, ImageCms.ImageCmsTransform | None]:
    """Return what makes sRGB of such images, and of which mode; None: they are, or it cannot."""
    try:
        opened = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        used = _SPACES.get(opened.profile.xcolor_space, {}).get(mode)
        if used is None:
            return mode, None
        made = "RGBA" if used == "RGBA" else "RGB"
        found = ImageCms.buildTransform(opened, ImageCms.createProfile("sRGB"), used, made)
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return mode, None
    return used, None if _changes_nothing(found, used) else found


def _changes_nothing(transform: ImageCms.ImageCmsTransform, mode: str) -> bool:
    if mode == "CMYK":
        return False
    levels = np.stack(np.meshgrid(_GRID, _GRID, _GRID), axis=-1).reshape(1, -1, 3)
    if mode == "L":
        levels = np.repeat(_GRID[np.newaxis, :, np.newaxis], 3, axis=2)
    plain = Image.fromarray(levels)
    seen = np.asarray(transform.apply(plain.convert(mode)).convert("RGB")).astype(np.int16)
    return bool(np.abs(seen - levels).max() <= _MOST_APART)


def png_profile(chunks: Mapping[bytes, bytes], icc: bytes) -> bytes:
    """Return the profile that a PNG's chunks stand for, in the order of its specification.

    `chunks`: cICP, sRGB, gAMA, cHRM and others, by their names.

    Raises:
        HdrError: the colours are those of HDR.
    """
    spans, curves, *layout = chunks.get(b"cICP", b"").ljust(2, b"\0")
    if layout == _RGB_OF_ALL_LEVELS:
        if (name := _HDR.get(curves)) is not None:
            raise HdrError(
                f"its colours are HDR ({name}), which eight bits do not hold; save it as sRGB"
            )
        if spans in PRIMARIES and curves in _CURVES:
            return icc_profile(PRIMARIES[spans], _CURVES[curves])
    if icc or b"sRGB" in chunks:
        return icc
    gamma = int.from_bytes(chunks.get(b"gAMA", b"")[:4], "big") / 100_000
    corners = chunks.get(b"cHRM", b"")
    primaries: Sequence[float] = _BT709
    if len(corners) == _CORNERS.size:
        primaries = [value / 100_000 for value in _CORNERS.unpack(corners)]
    if not gamma and primaries is _BT709:
        return b""
    return icc_profile(primaries, (1 / gamma,) if gamma else SRGB_CURVE)


def icc_profile(primaries: Sequence[float], curve: Curve) -> bytes:
    """Return an ICC profile of three primaries and one curve; empty: they span no colours.

    `primaries`: x and y of white, red, green and blue.
    """
    corners = np.asarray(primaries, float).reshape(4, 2)
    if (corners[:, 1] <= 0).any():
        return b""
    white, *colours = np.column_stack((corners, 1 - corners.sum(axis=1))) / corners[:, 1:]
    matrix = np.array(colours).T
    if abs(np.linalg.det(matrix)) < _LEAST_VOLUME:
        return b""
    matrix = matrix * np.linalg.solve(matrix, white)
    adapted = np.linalg.solve(_CONES, np.diag((_CONES @ _D50) / (_CONES @ white)) @ _CONES)
    red, green, blue = (adapted @ matrix).T
    trc = struct.pack(">4sIHH", b"para", 0, _CURVE_TYPES[len(curve)], 0) + _fixed(curve)
    return _profile(
        {b"wtpt": _xyz(_D50), b"rXYZ": _xyz(red), b"gXYZ": _xyz(green), b"bXYZ": _xyz(blue)}
        | {b"rTRC": trc, b"gTRC": trc, b"bTRC": trc}
    )


def _profile(tags: Mapping[bytes, bytes]) -> bytes:
    table, body = struct.pack(">I", len(tags)), b""
    start = 128 + 4 + 12 * len(tags)
    for name, content in tags.items():
        table += struct.pack(">4sII", name, start + len(body), len(content))
        body += content
    header = struct.pack(
        ">I4sI4s4s4s12s4s28s12s48s",
        *(start + len(body), b"", 0x04300000, b"mntr", b"RGB ", b"XYZ ", b"", b"acsp"),
        *(b"", _fixed(_D50.tolist()), b""),
    )
    return header + table + body


def _xyz(value: NDArray[np.float64]) -> bytes:
    return b"XYZ \0\0\0\0" + _fixed(value.tolist())


def _fixed(values: Sequence[float]) -> bytes:
    """Return numbers in ICC's format of 16 bits on either side of the point."""
    most = 32767.0
    return struct.pack(
        f">{len(values)}i", *(round(min(max(one, -most), most) * 65536) for one in values)
    )
