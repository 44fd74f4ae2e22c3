"""Bytes of RGB images to a tower's input: a table of what each value of a channel becomes.

A channel has 256 values, so scaling and normalising are done once for each of them, in the steps of
transformers' processors, and looked up with the same bits. Two neighbours are looked up at a time:
numpy makes an index of 64 bits for each look-up, and so half as many. An image of 336 x 336 pixels
takes 0.6 ms; the steps on all of it take 3 ms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

CHANNELS = 3
VALUES = 256
RESCALE = 1 / 255
"""Where a configuration has no factor, as transformers has it."""

PAIR = np.dtype("<u2")
Constants: TypeAlias = tuple[float, ...]
"""One number for each channel."""

Bytes: TypeAlias = NDArray[np.uint8]
Values: TypeAlias = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Normalisation:
    """`(pixel * rescale - mean) / std`, in float32."""

    mean: Constants
    """For each channel, after rescaling."""

    std: Constants
    """For each channel, after rescaling."""

    rescale: float

    @classmethod
    def of(cls, config: dict[str, Any]) -> "Normalisation":
        """Read it from an image processor's configuration.

        Raises:
            KeyError, ValueError: a key is missing or no number.
        """
        rescale = float(config.get("rescale_factor", RESCALE))
        return cls(tuple(config["image_mean"]), tuple(config["image_std"]), rescale)

    def table(self, dtype: DTypeLike = np.float16) -> Values:
        """Return [3, 256]: what each value of each channel becomes, rounded to a type."""
        pixels = np.arange(VALUES, dtype=np.float32) * np.float32(self.rescale)
        means, stds = (np.asarray(one, np.float32)[:, np.newaxis] for one in (self.mean, self.std))
        values: Values = ((pixels - means) / stds).astype(dtype)
        return values

    def of_channels(self, channels: Sequence[Bytes], dtype: DTypeLike = np.float16) -> Values:
        """Return [3, pixels] of the bytes [pixels] of each channel."""
        count = len(channels[0])
        # One more value makes the last pair of an odd number.
        planes = np.empty((CHANNELS, count + count % 2), dtype)
        for plane, channel, pairs in zip(
            planes, channels, _pairs(self, np.dtype(dtype)), strict=True
        ):
            even = np.append(channel, np.uint8(0)) if count % 2 else np.ascontiguousarray(channel)
            # No index is too large, and this mode checks none before it begins.
            np.take(pairs, even.view(PAIR), out=plane.view(pairs.dtype), mode="wrap")
        return np.ascontiguousarray(planes[:, :count])

    def of_images(self, images: Bytes) -> Values:
        """Return float16 [images, 3, height, width] of bytes [images, height, width, 3]."""
        _, height, width, _ = images.shape
        made = [
            self.of_channels([image[..., at].reshape(-1) for at in range(CHANNELS)])
            for image in images
        ]
        return np.stack(made).reshape(-1, CHANNELS, height, width)


@lru_cache(maxsize=8)
def _pairs(normalisation: Normalisation, dtype: np.dtype[Any]) -> tuple[NDArray[Any], ...]:
    """Return what each two values of each channel become, by the two bytes of the first and second.

    Each is [65,536], two results as one element: a quarter of a megabyte in 16 bits.
    """
    values = normalisation.table(dtype)
    both = np.dtype(f"u{2 * values.itemsize}")  # integers: numpy copies them fastest
    # The first of two is the lower byte, as the bytes of an image lie in memory.
    pairs = np.empty((CHANNELS, VALUES, VALUES, 2), dtype)
    pairs[..., 0], pairs[..., 1] = values[:, np.newaxis, :], values[:, :, np.newaxis]
    return tuple(one.reshape(VALUES * VALUES, 2).view(both)[:, 0] for one in pairs)
