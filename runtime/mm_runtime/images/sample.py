"""The image of the project's own requests (warm-up, golden answer): small and always the same."""

import numpy as np
from numpy.typing import NDArray

_SIDE = 64


def sample_image() -> NDArray[np.uint8]:
    """Return a red square on a grey gradient, uint8[height, width, 3]."""
    pixels = np.repeat(np.linspace(64, 192, _SIDE, dtype=np.uint8)[None, :, None], 3, axis=2)
    pixels = np.repeat(pixels, _SIDE, axis=0)
    pixels[_SIDE // 4 : _SIDE // 2, _SIDE // 4 : _SIDE // 2] = (220, 20, 20)
    return pixels
