"""PURE: objects of answers -> their JSON, as bytes that can be sent."""

import json
from collections.abc import Callable
from typing import Final

_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ESCAPED: Final = json.JSONEncoder(separators=(",", ":"))
_MARK: Final = "\0"
"""Stands for the text of a frame; nothing behind it is one."""


def encode(body: object) -> bytes:
    """Return compact JSON; lone surrogates, which UTF-8 cannot carry, stay escaped."""
    try:
        return _COMPACT.encode(body).encode()
    except UnicodeEncodeError:
        return _ESCAPED.encode(body).encode()


class TextFrame:
    """The JSON of an object of which one string changes, written once around that string.

    A stream has an event for each token, and nothing but the text differs.
    """

    def __init__(self, body_of: Callable[[str], object]) -> None:
        self._before, _, self._after = encode(body_of(_MARK)).rpartition(encode(_MARK))

    def write(self, text: str) -> bytes:
        """Return what `encode` makes of the object with this text."""
        return self._before + encode(text) + self._after
