"""Colours of files -> sRGB, which models were trained on and screens of browsers show.

A profile counts where a browser lets it count: one that is broken, or of another number of
channels, is as if it were not there.
"""

import io
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
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

_HDR = {16: "PQ", 18: "HLG"}
"""Code points of ITU-T H.273, which a PNG's cICP has."""
_RGB_OF_ALL_LEVELS = [0, 1]


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


def refuse_hdr(chunks: Mapping[bytes, bytes]) -> None:
    """Refuse a PNG that says, by its chunk cICP, that its colours are those of HDR."""
    _, curves, *layout = chunks.get(b"cICP", b"").ljust(2, b"\0")
    if layout == _RGB_OF_ALL_LEVELS and (name := _HDR.get(curves)) is not None:
        raise HdrError(
            f"its colours are HDR ({name}), which eight bits do not hold; save it as sRGB"
        )
