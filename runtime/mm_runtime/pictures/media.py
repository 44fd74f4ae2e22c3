"""Encoded images of users -> upright RGB pictures, within limits.

The header is read first: size and format are judged before a single pixel is decoded.
"""

import io
import warnings

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

FORMATS = ("JPEG", "PNG", "GIF", "WEBP")
"""What OpenAI accepts. Fewer decoders, fewer defects that a stranger can reach."""

# Our own limit stands in `decode`, with numbers and a name; Pillow's would only repeat it.
Image.MAX_IMAGE_PIXELS = None


class BadImageError(Exception):
    """The bytes are no image this gateway takes. The message is for the client."""


def decode(encoded: bytes, *, max_pixels: int) -> Image.Image:
    """Return the first frame as upright RGB; transparency is laid on white.

    Raises:
        BadImageError: not an image, truncated, of another format, or of too many pixels.
    """
    if not encoded:
        raise BadImageError("the image is empty (0 bytes)")
    try:
        with warnings.catch_warnings():
            # A warning of Pillow (odd metadata, palette with alpha) is no reason to refuse.
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(encoded), formats=FORMATS) as image:
                check_pixels(image.size, max_pixels)
                image.load()
                check_pixels(image.size, max_pixels)
                return to_rgb(ImageOps.exif_transpose(image))
    except BadImageError:
        raise
    except UnidentifiedImageError:
        raise BadImageError(
            f"the bytes are not an image; accepted formats are {', '.join(FORMATS)}"
        ) from None
    except Exception as error:  # noqa: BLE001 - decoders raise SyntaxError, struct.error, EOFError...
        raise BadImageError(f"the image is damaged or truncated ({error})") from None


def check_pixels(size: tuple[int, int], limit: int) -> None:
    """Refuse more pixels than the limit.

    Raises:
        BadImageError: that many.
    """
    width, height = size
    if width * height > limit:
        raise BadImageError(
            f"the image has {width} x {height} = {width * height} pixels, more than the limit of "
            f"{limit}"
        )


def to_rgb(image: Image.Image) -> Image.Image:
    """Return an RGB picture; transparency is laid on white, deep grey is scaled."""
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I") or image.mode == "F":
        return _from_deep_grey(image)
    if image.has_transparency_data:
        above = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, above).convert("RGB")
    return image.convert("RGB")


def _from_deep_grey(image: Image.Image) -> Image.Image:
    """Scale 16-bit grey to 8 bits; Pillow's own conversion would clip at 255."""
    deep = np.asarray(image).astype(np.float32)
    grey = np.clip(deep / 257.0, 0, 255).round().astype(np.uint8)
    return Image.fromarray(grey).convert("RGB")
