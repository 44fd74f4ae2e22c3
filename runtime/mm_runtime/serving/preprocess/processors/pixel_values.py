"""RGB images of Pillow to a tower's input; the arithmetic is `mm_runtime.images.normalisation`."""

import numpy as np
from numpy.typing import DTypeLike
from PIL import Image

from mm_runtime.images.normalisation import CHANNELS, Constants, Normalisation, Values


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
    channels = [np.frombuffer(image.getchannel(at).tobytes(), np.uint8) for at in range(CHANNELS)]
    values = Normalisation(mean, std, rescale).of_channels(channels, dtype)
    return values.reshape(CHANNELS, image.height, image.width)
