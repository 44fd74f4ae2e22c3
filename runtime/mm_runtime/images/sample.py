"""The images of the project's own requests (warm-up, evaluation)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_SIDE = 64
_WIDE = 96


def sample_image() -> NDArray[np.uint8]:
    """Return a red square on a grey gradient, uint8[height, width, 3]."""
    pixels = np.repeat(np.linspace(64, 192, _SIDE, dtype=np.uint8)[None, :, None], 3, axis=2)
    pixels = np.repeat(pixels, _SIDE, axis=0)
    pixels[_SIDE // 4 : _SIDE // 2, _SIDE // 4 : _SIDE // 2] = (220, 20, 20)
    return pixels


def evaluation_images() -> Sequence[NDArray[np.uint8]]:
    """Return images that differ in colour, shape, place and size; the first is the sample."""
    rows, columns = np.mgrid[:_SIDE, :_WIDE]
    disc = np.full((_SIDE, _WIDE, 3), 235, dtype=np.uint8)
    disc[(rows - _SIDE // 2) ** 2 + (columns - 2 * _WIDE // 3) ** 2 < (_SIDE // 4) ** 2] = (
        20,
        60,
        220,
    )
    stripes = np.zeros((_WIDE, _SIDE, 3), dtype=np.uint8)
    stripes[::8] = stripes[1::8] = stripes[2::8] = (250, 210, 30)
    stripes[: _WIDE // 3, : _SIDE // 2] = (30, 160, 60)
    return sample_image(), disc, stripes
