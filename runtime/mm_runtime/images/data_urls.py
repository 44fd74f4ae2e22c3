"""`data:` URLs -> bytes, as browsers read them, with their size judged before anything is decoded.

The rules are those of WHATWG: "data: URL processor" of its Fetch standard, "forgiving-base64
decode" of its Infra standard. What media type a URL states does not matter to a browser that shows
an image, and does not matter here: the bytes say what they are.
"""

import binascii
import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

import pybase64

from mm_runtime.images.media import BadImageError

_WHITE_SPACE = str.maketrans("", "", "\t\n\f\r ")
_LEFT_OUT = str.maketrans("", "", "\t\n\r")
"""Characters that no URL keeps."""
_TRIMMED = "".join(map(chr, range(0x21)))
"""What no URL keeps at its ends."""
_BASE64 = re.compile(r"; *base64$", re.IGNORECASE)
_FOREIGN = re.compile(r"[^A-Za-z0-9+/]")
_GROUP = 4


@dataclass(frozen=True, slots=True)
class DataUrl:
    """The parts of a `data:` URL, the body as it was sent; an empty media type: none is stated."""

    media_type: str
    body: str
    is_base64: bool

    def content(self, *, max_bytes: int) -> bytes:
        """Return the bytes; BadImageError: wrong base64, or more than `max_bytes`."""
        if self.is_base64:
            return decode_base64(self.body, max_bytes=max_bytes)
        if self.body and not _FOREIGN.search(self.body.rstrip("=")):
            # The bytes of no file are all letters.
            raise BadImageError(
                "the data: URL is not marked as base64; expected data:<type>;base64,<data>"
            )
        _check_size(len(self.body) - 2 * self.body.count("%"), max_bytes)
        content = unquote_to_bytes(self.body.encode("utf-8", "replace"))
        _check_size(len(content), max_bytes)
        return content


def decode_data_url(url: str, *, max_bytes: int) -> bytes:
    return split_data_url(url).content(max_bytes=max_bytes)


def split_data_url(url: str) -> DataUrl:
    """Return the parts of a `data:` URL; BadImageError: it has no comma."""
    head, comma, body = url.partition(",")
    if not comma:
        raise BadImageError(
            "the data: URL has no comma between media type and data; expected "
            "data:<type>;base64,<data>"
        )
    head = head.translate(_LEFT_OUT).strip(_TRIMMED)[len("data:") :].strip()
    described = _BASE64.sub("", head)
    media_type = described.partition(";")[0].strip().lower()
    return DataUrl(media_type, body.partition("#")[0], described != head)


def decode_base64(encoded: str, *, max_bytes: int) -> bytes:
    """Return the bytes of base64 text; its padding may be left out, and blanks may be anywhere.

    Raises:
        BadImageError: wrong base64, or more than `max_bytes`.
    """
    size = len(encoded) * 3 // 4 - encoded[-2:].count("=")
    try:
        if size <= max_bytes:
            return pybase64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        pass  # what is not as most are is read by the rules, below
    if "%" in encoded:
        encoded = unquote_to_bytes(encoded.encode("utf-8", "replace")).decode("latin-1")
    encoded = encoded.translate(_WHITE_SPACE)
    if len(encoded) % _GROUP == 0 and encoded.endswith("="):
        encoded = encoded[: -2 if encoded.endswith("==") else -1]
    _check_size(len(encoded) * 3 // 4, max_bytes)
    if "=" not in encoded and len(encoded) % _GROUP != 1:
        try:
            return pybase64.b64decode(encoded + "=" * (-len(encoded) % _GROUP), validate=True)
        except (binascii.Error, ValueError):
            pass  # said below, in which place
    raise BadImageError(f"the data: URL is not valid base64 ({_why(encoded)})")


def _why(encoded: str) -> str:
    wrong = _FOREIGN.search(encoded)
    if wrong is None:
        return f"it is cut: {len(encoded)} characters are groups of four and one more"
    character, at = wrong[0], wrong.start()
    if character in "-_":
        return f"{character!r} is of the URL-safe alphabet: write + for - and / for _"
    if character == "=":
        return f"padding at character {at}, where no group of four ends with it"
    return f"{character!r} at character {at}"


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise BadImageError(f"the image has {size} bytes, more than the limit of {most}")
