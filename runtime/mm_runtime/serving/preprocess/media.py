"""Images of a request as Pillow images: raw pixels or URLs, limits checked first."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mm_runtime.images.data_urls import decode_data_url
from mm_runtime.images.media import BadImageError, decode
from mm_runtime.serving.errors import RequestError

RGB = 3
BATCHED_IMAGE_DIMS = 5
"""Dimensions of [batch, images, height, width, 3]."""

DATA_SCHEME = "data:"
SHOWN = 60
"""Characters of a URL that are repeated in a message."""


@dataclass(frozen=True)
class MediaLimits:
    """What one image may be at most; the encoded size is checked before anything is decoded."""

    max_bytes: int
    max_pixels: int


def images_from_pixels(
    pixels: NDArray[np.uint8],
    limits: MediaLimits,
    sizes: NDArray[np.int64] | None = None,
    name: str = "image_bytes_input",
) -> list[NDArray[np.uint8]]:
    """Return the images [height, width, 3] of a uint8 tensor, each without its padding.

    Args:
        pixels: [1, images, height, width, 3], or [1, images, 3, height, width] where the last
            dimension is not 3; images of different sizes are padded to the right and below.
        limits: of each image.
        sizes: height and width of each image without its padding, int64 [images, 2].
        name: of the first tensor, for messages.

    Raises:
        RequestError: another shape, an empty image, or more pixels than allowed.
    """
    shape = pixels.shape
    if len(shape) != BATCHED_IMAGE_DIMS or shape[0] != 1 or RGB not in (shape[2], shape[-1]):
        raise RequestError(
            f"{name}: got shape {list(shape)}, expected raw RGB as "
            "[1, images, height, width, 3] or [1, images, 3, height, width]"
        )
    if shape[-1] != RGB:
        pixels = np.ascontiguousarray(np.moveaxis(pixels, 2, -1))
    height, width = pixels.shape[2:4]
    _check_pixels(width, height, limits)
    if sizes is None:
        return list(pixels[0])
    if sizes.shape != (pixels.shape[1], 2) or (sizes < 1).any() or (sizes > (height, width)).any():
        raise RequestError(
            f"image_sizes_input: got {sizes.tolist()}, expected the height and width of each of "
            f"{pixels.shape[1]} images, at most {height} x {width}"
        )
    return [
        np.ascontiguousarray(image[:high, :wide])
        for image, (high, wide) in zip(pixels[0], sizes.tolist(), strict=True)
    ]


def image_from_url(
    url: str, limits: MediaLimits, fetched: Mapping[str, bytes] = MappingProxyType({})
) -> Image.Image:
    """Return the image of a URL, upright RGB; `fetched`: http(s) URL -> what was found there.

    Raises:
        RequestError: another scheme, wrong base64, no image, or over a limit.
    """
    try:
        if url in fetched:
            content = fetched[url]
        elif (url := url.strip())[: len(DATA_SCHEME)].lower() == DATA_SCHEME:
            content = decode_data_url(url, max_bytes=limits.max_bytes)
        else:
            raise RequestError(
                f"image_url_input: {url[:SHOWN]!r} is not a URL of an image; "
                "expected http://, https:// or data:image/<type>;base64,<data>"
            )
        return decode(content, max_pixels=limits.max_pixels)
    except BadImageError as error:
        raise RequestError(f"image_url_input: {error}") from error


def _check_pixels(width: int, height: int, limits: MediaLimits) -> None:
    if width * height == 0:
        raise RequestError(f"the image is empty: {width} x {height} pixels")
    if width * height > limits.max_pixels:
        raise RequestError(
            f"the image has {width} x {height} pixels, at most {limits.max_pixels} are allowed"
        )
