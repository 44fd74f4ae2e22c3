"""`data:` URLs -> bytes, strict about base64 and size before anything is decoded."""

import base64
import binascii

import pybase64

from mm_runtime.images.media import BadImageError

_BLANKS = " \t\r\n"
_WHITE_SPACE = str.maketrans("", "", _BLANKS)
_SHOWN = 40
"""Characters of a media type that are repeated in a message."""


class DecodedUrl(str):
    """A `data:` URL of an image whose bytes are known: it is short, and stands for a long one."""

    __slots__ = ("content",)

    content: bytes
    """The image's file."""

    @classmethod
    def of(cls, short: str, content: bytes) -> "DecodedUrl":
        """Return a URL that stands for these bytes."""
        url = cls(short)
        url.content = content
        return url


def decode_data_url(url: str, *, max_bytes: int) -> bytes:
    """Return the bytes of `data:image/...;base64,...`.

    Raises:
        BadImageError: no base64 data URL of an image, or more than `max_bytes`.
    """
    if isinstance(url, DecodedUrl):
        _check_size(len(url.content), max_bytes)
        return url.content
    media_type, encoded = split_data_url(url)
    if media_type and not media_type.lower().startswith("image/"):
        raise BadImageError(f"the data: URL is of type {media_type[:_SHOWN]!r}, not an image")
    return decode_base64(encoded, max_bytes=max_bytes)


def split_data_url(url: str) -> tuple[str, str]:
    """Return media type and data of a base64 `data:` URL.

    Raises:
        BadImageError: it is none.
    """
    head, comma, encoded = url.partition(",")
    if not comma:
        raise BadImageError("the data: URL has no comma between media type and data")
    media_type, *parameters = head[len("data:") :].split(";")
    if "base64" not in parameters:
        raise BadImageError("the data: URL is not base64; expected data:image/...;base64,...")
    return media_type, encoded


def decode_base64(encoded: str, *, max_bytes: int) -> bytes:
    """Return the bytes of base64 text.

    Raises:
        BadImageError: wrong base64, or more than `max_bytes`.
    """
    if any(blank in encoded for blank in _BLANKS):  # most have none: 1.5 ms less of a megabyte
        encoded = encoded.translate(_WHITE_SPACE)
    size = len(encoded) * 3 // 4 - encoded[-2:].count("=")
    _check_size(size, max_bytes)
    try:
        return _decoded(encoded)
    except (binascii.Error, ValueError) as error:
        raise BadImageError(f"the data: URL is not valid base64 ({error})") from None


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise BadImageError(f"the image has {size} bytes, more than the limit of {most}")


def _decoded(encoded: str) -> bytes:
    """Return what the standard library does, in a fifteenth of its 3 ms a megabyte.

    What the faster decoder refuses is the standard library's to judge: it takes padding behind
    complete groups, and says what is wrong with the rest.
    """
    try:
        return pybase64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return base64.b64decode(encoded, validate=True)
