"""Encoded images of users -> upright RGB images, within limits.

The header is read first: size and format are judged before a single pixel is decoded.
"""

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from PIL import Image, PngImagePlugin, UnidentifiedImageError
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile

from mm_runtime.images.orientation import orientation_of
from mm_runtime.images.structure import StructureError, check_structure, webp_canvas

FORMATS = ("JPEG", "PNG", "GIF", "WEBP")
"""What OpenAI accepts. Fewer decoders, fewer defects that a stranger can reach."""

# Our own limit stands in `decode`, with numbers and a name; Pillow's would only repeat it.
Image.MAX_IMAGE_PIXELS = None

# Of a PNG's compressed texts once they are unpacked; Pillow allows 64 MiB. One text, and a colour
# profile, may have Pillow's own megabyte.
PngImagePlugin.MAX_TEXT_MEMORY = 4 << 20

_BAND_ROWS = 256

_UPRIGHT_BY = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Exif's orientations -> what undoes them; 1 is upright."""


class BadImageError(Exception):
    """The bytes are no image this gateway takes. The message is for the client."""


class _Jpeg(JpegImageFile):
    """A JPEG whose Exif is not parsed while it opens: its entries may copy gigabytes.

    Opened as such, without Pillow's search for further images in the same file, which parses
    another directory of the same kind.
    """

    def _read_dpi_from_exif(self) -> None:
        """Leave the resolution unknown; no image of a model has one."""


@contextmanager
def opened(
    encoded: bytes, *, max_pixels: int, formats: tuple[str, ...] = FORMATS
) -> Iterator[ImageFile]:
    """Open an image of one of some formats; nothing is decoded yet.

    Raises:
        BadImageError: not an image, truncated, of another format or structure, or of too many
            pixels; also for whatever decoders raise inside the block.
    """
    if not encoded:
        raise BadImageError("the image is empty (0 bytes)")
    try:
        check_structure(encoded)
        if (canvas := webp_canvas(encoded)) is not None:
            check_pixels(canvas, max_pixels)
        with warnings.catch_warnings():
            # A warning of Pillow (odd metadata, palette with alpha) is no reason to refuse.
            warnings.simplefilter("ignore")
            with _open(encoded, formats) as image:
                check_pixels(image.size, max_pixels)
                yield image
    except (BadImageError, UnidentifiedImageError):
        raise
    except StructureError as error:
        raise BadImageError(str(error)) from None
    except MemoryError:
        raise BadImageError("the image needs more memory than its decoder may take") from None
    except Exception as error:  # noqa: BLE001 - decoders raise SyntaxError, struct.error, EOFError...
        raise BadImageError(f"the image is damaged or truncated ({error})") from None


def decode(encoded: bytes, *, max_pixels: int) -> Image.Image:
    """Return the first frame as upright RGB; transparency is laid on white.

    Raises:
        BadImageError: not an image, truncated, of another format, or of too many pixels.
    """
    try:
        with opened(encoded, max_pixels=max_pixels) as image:
            image.load()
            check_pixels(image.size, max_pixels)
            # After the pixels: a PNG may state it behind them.
            method = _UPRIGHT_BY.get(orientation_of(image.info))
            upright = to_rgb(image)
    except UnidentifiedImageError:
        raise BadImageError(
            f"the bytes are not an image; accepted formats are {', '.join(FORMATS)}"
        ) from None
    return upright if method is None else upright.transpose(method)


def _open(encoded: bytes, formats: tuple[str, ...]) -> ImageFile:
    if encoded.startswith(b"\xff\xd8\xff") and "JPEG" in formats:
        return _Jpeg(io.BytesIO(encoded))
    return Image.open(io.BytesIO(encoded), formats=formats)


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
    """Return the image as RGB, itself if it is; on white, and deep grey scaled."""
    if image.mode.startswith("I") or image.mode == "F":
        return _in_bands(image, _from_deep_grey)
    if image.mode != "RGB" and image.has_transparency_data:
        return _in_bands(image, _on_white)
    return image if image.mode == "RGB" else image.convert("RGB")


def _in_bands(image: Image.Image, convert: Callable[[Image.Image], Image.Image]) -> Image.Image:
    """Convert some rows at a time: the steps between take five times the image's own memory."""
    result = Image.new("RGB", image.size)
    for top in range(0, image.height, _BAND_ROWS):
        band = image.crop((0, top, image.width, min(top + _BAND_ROWS, image.height)))
        result.paste(convert(band), (0, top))
    return result


def _on_white(band: Image.Image) -> Image.Image:
    above = band.convert("RGBA")
    white = Image.new("RGBA", above.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, above).convert("RGB")


def _from_deep_grey(band: Image.Image) -> Image.Image:
    """Scale 16-bit grey to 8 bits; Pillow's own conversion would clip at 255."""
    deep = np.asarray(band).astype(np.float32)
    grey = np.clip(deep / 257.0, 0, 255).round().astype(np.uint8)
    return Image.fromarray(grey).convert("RGB")
