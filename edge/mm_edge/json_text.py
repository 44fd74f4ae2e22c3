"""PURE: objects of answers -> their JSON, as bytes that can be sent."""

import json
from typing import Final

_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ESCAPED: Final = json.JSONEncoder(separators=(",", ":"))


def encode(body: object) -> bytes:
    """Return compact JSON; lone surrogates, which UTF-8 cannot carry, stay escaped."""
    try:
        return _COMPACT.encode(body).encode()
    except UnicodeEncodeError:
        return _ESCAPED.encode(body).encode()
