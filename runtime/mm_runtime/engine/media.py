"""Pictures of a request as Pillow images: raw pixels or `data:` URLs, limits checked first."""

import base64
import binascii
import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mm_runtime.engine.errors import RequestError

RGB = 3
BATCHED_PICTURES = 5
"""Dimensions of [batch, images, height, width, 3]."""

DATA_SCHEME = "data:"
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
"""Decoders that may run; Pillow knows many more that nobody needs here."""

# Our own limit is checked before pixels are decoded; Pillow's would answer first, with other words.
Image.MAX_IMAGE_PIXELS = None


@dataclass(frozen=True)
class MediaLimits:
    """What one picture may be at most; the encoded size is checked before anything is decoded."""

    max_bytes: int
    max_pixels: int


def images_from_pixels(
    pixels: NDArray[np.uint8], limits: MediaLimits, sizes: NDArray[np.int64] | None = None
) -> list[Image.Image]:
    """Return the pictures of a uint8 tensor [1, images, height, width, 3].

    Args:
        pixels: the tensor; pictures of different sizes are padded to the right and below.
        limits: of each picture.
        sizes: height and width of each picture without its padding, int64 [images, 2].

    Raises:
        RequestError: another shape, an empty picture, or more pixels than allowed.
    """
    if pixels.ndim != BATCHED_PICTURES or pixels.shape[0] != 1 or pixels.shape[-1] != RGB:
        raise RequestError(
            f"image_bytes_input: got shape {list(pixels.shape)}, "
            "expected raw RGB as [1, images, height, width, 3]"
        )
    height, width = pixels.shape[2:4]
    _check_pixels(width, height, limits)
    if sizes is None:
        return [Image.fromarray(picture, "RGB") for picture in pixels[0]]
    if sizes.shape != (pixels.shape[1], 2) or (sizes < 1).any() or (sizes > (height, width)).any():
        raise RequestError(
            f"image_sizes_input: got {sizes.tolist()}, expected the height and width of each of "
            f"{pixels.shape[1]} images, at most {height} x {width}"
        )
    return [
        Image.fromarray(np.ascontiguousarray(picture[:high, :wide]), "RGB")
        for picture, (high, wide) in zip(pixels[0], sizes.tolist(), strict=True)
    ]


def image_from_url(url: str, limits: MediaLimits) -> Image.Image:
    """Return the picture inside a `data:` URL.

    Raises:
        RequestError: another scheme, wrong base64, no picture, or over a limit.
    """
    if not url.startswith(DATA_SCHEME):
        raise RequestError(
            f"image_url_input: {url[:60]!r} is not a data: URL; the server fetches nothing, "
            "send the picture itself or use the OpenAI gateway, which fetches http(s) URLs"
        )
    header, comma, payload = url.partition(",")
    if not comma or not header.endswith(";base64"):
        raise RequestError("image_url_input: expected data:image/<type>;base64,<data>")
    if len(payload) * 3 // 4 > limits.max_bytes:
        raise RequestError(
            f"image_url_input: about {len(payload) * 3 // 4} bytes, "
            f"at most {limits.max_bytes} are allowed"
        )
    try:
        content = base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RequestError(f"image_url_input: wrong base64: {error}") from error
    return decode_image(content, limits)


def decode_image(content: bytes, limits: MediaLimits) -> Image.Image:
    """Return the first frame of an encoded picture as RGB.

    Raises:
        RequestError: no picture, a truncated one, or more pixels than allowed.
    """
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            _check_pixels(image.width, image.height, limits)
            return image.convert("RGB")
    except (OSError, SyntaxError, ValueError) as error:
        raise RequestError(
            f"the image cannot be decoded ({len(content)} bytes): {error}; "
            f"send a whole {', '.join(FORMATS)} file"
        ) from error


def _check_pixels(width: int, height: int, limits: MediaLimits) -> None:
    if width * height == 0:
        raise RequestError(f"the image is empty: {width} x {height} pixels")
    if width * height > limits.max_pixels:
        raise RequestError(
            f"the image has {width} x {height} pixels, at most {limits.max_pixels} are allowed"
        )
