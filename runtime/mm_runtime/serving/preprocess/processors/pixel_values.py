"""RGB images to a tower's input: a table of what each value of a channel becomes.

A channel has 256 values, so scaling and normalising are done once for each of them, in the steps of
transformers' processors; an image of 336 x 336 pixels is looked up in a tenth of the time that the
steps take on all of it, with the same bits.
"""

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from PIL import Image

CHANNELS = 3
VALUES = 256
Constants: TypeAlias = tuple[float, ...]
"""One number for each channel."""

Values: TypeAlias = NDArray[np.floating[Any]]


def pixel_values(
    image: Image.Image,
    *,
    mean: Constants,
    std: Constants,
    rescale: float,
    dtype: DTypeLike = np.float16,
) -> Values:
    """Return [3, height, width]: `(pixel * rescale - mean) / std` of an RGB image.

    Args:
        image: RGB.
        mean: of each channel, after rescaling.
        std: of each channel, after rescaling.
        rescale: factor of a pixel.
        dtype: computed in float32, then rounded to this.
    """
    pixels = np.asarray(image)
    table = _table(mean, std, rescale, np.dtype(dtype))
    planes = np.empty((CHANNELS, *pixels.shape[:2]), dtype=table.dtype)
    for channel in range(CHANNELS):
        # Clipping changes nothing of 8 bits; the default checks each index and copies the result.
        table[channel].take(pixels[..., channel], out=planes[channel], mode="clip")
    return planes


@lru_cache(maxsize=8)
def _table(mean: Constants, std: Constants, rescale: float, dtype: np.dtype[Any]) -> Values:
    """Return what each value of each channel becomes, [3, 256]."""
    values = np.arange(VALUES, dtype=np.float32) * np.float32(rescale)
    means, stds = (np.asarray(one, dtype=np.float32)[:, np.newaxis] for one in (mean, std))
    table: Values = ((values - means) / stds).astype(dtype)
    return table
