"""PURE: objects of answers -> their JSON, as bytes that can be sent."""

import json
from typing import Final

_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_ESCAPED: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"))

_MARK: Final = b"\xef\xbb\xbf"


def without_mark(text: bytes) -> bytes:
    """Return JSON without the byte order mark that some programs write in front of UTF-8."""
    return text.removeprefix(_MARK)


def encode(body: object) -> bytes:
    """Return compact JSON, lone surrogates escaped; ValueError: a number is NaN or infinite."""
    try:
        return _COMPACT.encode(body).encode()
    except UnicodeEncodeError:
        return _ESCAPED.encode(body).encode()
