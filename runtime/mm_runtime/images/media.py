"""Encoded images of users -> what a browser shows of them, upright and in sRGB, within limits.

The header is read first: size and format are judged before a single pixel is decoded.
"""

import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from PIL import Image, PngImagePlugin, UnidentifiedImageError
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile

from mm_runtime.images.colour import HdrError, refuse_hdr, to_srgb
from mm_runtime.images.jpeg import decode_jpeg, is_complete
from mm_runtime.images.kinds import kind_of
from mm_runtime.images.parts import PNG_SIGNATURE
from mm_runtime.images.png import Png, check_complete, clear_pixels, read_png
from mm_runtime.images.structure import StructureError, check_structure, webp_canvas

FORMATS = ("JPEG", "PNG", "GIF", "WEBP")
"""What OpenAI accepts. Fewer decoders, fewer defects that a stranger can reach."""

# Our own limit stands in `decode`, with numbers and a name; Pillow's would only repeat it.
Image.MAX_IMAGE_PIXELS = None

# Of a PNG's compressed texts once they are unpacked; Pillow allows 64 MiB. One text, and a colour
# profile, may have Pillow's own megabyte.
PngImagePlugin.MAX_TEXT_MEMORY = 4 << 20

_BAND_ROWS = 256

_NO_PIXELS = {"not identified by this driver": "its header promises no rows or no columns"}
"""What Pillow says of a header without a size -> what it means."""

_WHITE = (255, 255, 255)

_PLAIN = frozenset({"L", "RGB", "CMYK"})
_GREY_MODES = {"1": "L"}

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


class _Png(PngImageFile):
    """A PNG, with what its chunks say besides."""

    def __init__(self, parts: Png) -> None:
        self.parts = parts
        super().__init__(io.BytesIO(parts.file))


@contextmanager
def opened(encoded: bytes, *, max_pixels: int) -> Iterator[ImageFile]:
    """Open an image; nothing is decoded yet.

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
            with _open(encoded) as image:
                check_pixels(image.size, max_pixels)
                yield image
    except (BadImageError, UnidentifiedImageError):
        raise
    except StructureError as error:
        raise BadImageError(str(error)) from None
    except HdrError as error:
        raise BadImageError(f"the image is not shown as it is: {error}") from None
    except MemoryError:
        raise BadImageError("the image needs more memory than its decoder may take") from None
    except Exception as error:  # noqa: BLE001 - decoders raise SyntaxError, struct.error, EOFError...
        problem = _NO_PIXELS.get(str(error), str(error)) or "a part of it is missing"
        raise BadImageError(f"the image is damaged or truncated ({problem})") from None


def decode(encoded: bytes, *, max_pixels: int) -> Image.Image:
    """Return the first frame as upright sRGB; transparency is laid on white.

    Raises:
        BadImageError: not an image, damaged, of another format, or of too many pixels.
    """
    try:
        with opened(encoded, max_pixels=max_pixels) as image:
            if getattr(image, "default_image", False):
                image.seek(1)  # the other one is for readers without animation
            shown = _shown(image, encoded)
            check_pixels(image.size, max_pixels)
            # After the pixels: a PNG may state it behind them.
            method = _UPRIGHT_BY.get(orientation_of(image.info))
    except UnidentifiedImageError:
        raise BadImageError(
            f"the bytes are not an image that is read here ({kind_of(encoded)}); accepted formats "
            f"are {', '.join(FORMATS)}"
        ) from None
    return shown if method is None else shown.transpose(method)


def checked_size(
    encoded: bytes, max_pixels: int, wanted: Callable[[int, int], bool]
) -> tuple[int, int] | None:
    """Return width and height of a plain file that is complete; None: not wanted, or perhaps not.

    Raises:
        BadImageError: as `decode`.
    """
    with opened(encoded, max_pixels=max_pixels) as image:
        if not wanted(*image.size):
            return None
        if isinstance(image, _Jpeg):
            return image.size if is_complete(encoded) else None
        _shown(image, encoded)
        return image.size


def _shown(image: ImageFile, encoded: bytes) -> Image.Image:
    profile = image.info.get("icc_profile") or b""
    if isinstance(image, _Jpeg):
        progressive = "progressive" in image.info
        pixels = decode_jpeg(encoded, image.mode, image.size, progressive=progressive)
        return to_rgb(Image.fromarray(pixels, image.mode), profile)
    drawn = image.tile[0].extents if image.format == "GIF" else None
    image.load()
    if isinstance(image, _Png):
        if image.tell() == 0:
            check_complete(image.parts, image)
        clear = clear_pixels(image.parts, image)
        if clear is not None:
            image.info.pop("transparency", None)
        refuse_hdr(image.parts.chunks)
        shown = to_rgb(image, profile)
        if clear is not None:
            shown.paste(_WHITE, mask=clear)
        return shown
    if drawn is None:
        return to_rgb(image, profile)
    # Browsers ignore profiles of GIFs and their background: what the frame leaves out is clear.
    shown = Image.new("RGB", image.size, _WHITE)
    shown.paste(to_rgb(image).crop(drawn), drawn)
    return shown


def _open(encoded: bytes) -> ImageFile:
    if encoded.startswith(b"\xff\xd8\xff"):
        return _Jpeg(io.BytesIO(encoded))
    if encoded.startswith(PNG_SIGNATURE):
        return _Png(read_png(encoded))
    return Image.open(io.BytesIO(encoded), formats=FORMATS)


def check_pixels(size: tuple[int, int], limit: int) -> None:
    width, height = size
    if width * height > limit:
        raise BadImageError(
            f"the image has {width} x {height} = {width * height} pixels, more than the limit of "
            f"{limit}"
        )


def to_rgb(image: Image.Image, profile: bytes = b"") -> Image.Image:
    """Return an image in sRGB, itself if it is; on white, and deep grey scaled."""
    transparent = image.has_transparency_data or "transparency" in image.info
    if image.mode == "RGB" and not transparent:
        return to_srgb(image, profile)
    # Some rows at a time: the steps between take five times the image's own memory.
    result = Image.new("RGB", image.size)
    for top in range(0, image.height, _BAND_ROWS):
        band = image.crop((0, top, image.width, min(top + _BAND_ROWS, image.height)))
        result.paste(_on_white(to_srgb(_plain(band, transparent=transparent), profile)), (0, top))
    return result


def _plain(band: Image.Image, *, transparent: bool) -> Image.Image:
    """Return rows in a mode that profiles are for, of eight bits and without palette."""
    if band.mode.startswith("I") or band.mode == "F":
        return _eight_bits(band)
    if transparent:
        return band.convert("LA" if band.mode == "LA" else "RGBA")
    return band if band.mode in _PLAIN else band.convert(_GREY_MODES.get(band.mode, "RGB"))


def _on_white(band: Image.Image) -> Image.Image:
    if "A" not in band.mode:
        return band.convert("RGB")
    white = Image.new("RGBA", band.size, (*_WHITE, 255))
    return Image.alpha_composite(white, band.convert("RGBA")).convert("RGB")


def _eight_bits(band: Image.Image) -> Image.Image:
    deep = np.asarray(band).astype(np.float32)
    return Image.fromarray(np.clip(deep / 257.0, 0, 255).round().astype(np.uint8))


_EXIF_BYTES = 64 * 1024
"""Size of Exif that is read at all: the largest segment of a JPEG, where cameras write it."""

UPRIGHT = 1
_LAST = 8
_TAG = 0x0112
_PREFIX = b"Exif\0\0"
_ENTRY_BYTES = 12
_ORDERS = {b"II": "little", b"MM": "big"}


def orientation_of(metadata: Mapping[str | tuple[int, int], object]) -> int:
    """Return the orientation, 1 to 8, that the Exif of `Image.info` states; 1 is upright.

    What is damaged or larger than `_EXIF_BYTES` is as if it were not there. Pillow's own reader
    copies the data of every entry: two thousand that point at one megabyte are two gigabytes.
    """
    exif = metadata.get("exif")
    found = _in_exif(exif) if isinstance(exif, bytes) else None
    return UPRIGHT if found is None else found


def _in_exif(exif: bytes) -> int | None:
    if len(exif) > _EXIF_BYTES:
        return None
    while exif.startswith(_PREFIX):
        exif = exif[len(_PREFIX) :]
    order = _ORDERS.get(exif[:2])
    if order is None:
        return None

    def number(at: int, size: int) -> int:
        return int.from_bytes(exif[at : at + size], "little" if order == "little" else "big")

    directory = number(4, 4)
    for entry in range(number(directory, 2)):
        at = directory + 2 + entry * _ENTRY_BYTES
        if at >= len(exif):
            return None
        if number(at, 2) == _TAG:
            found = number(at + 8, 2)
            return found if UPRIGHT <= found <= _LAST else None
    return None
