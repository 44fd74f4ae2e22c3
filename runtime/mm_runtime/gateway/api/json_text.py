"""PURE: objects of which one string changes -> their JSON, as bytes that can be sent."""

from collections.abc import Callable
from typing import Final

from mm_edge.json_text import encode

_MARK: Final = "\0"
"""Stands for the text of a frame; nothing behind it is one."""


class TextFrame:
    """The JSON of an object of which one string changes, written once around that string.

    A stream has an event for each token, and nothing but the text differs.
    """

    def __init__(self, body_of: Callable[[str], object]) -> None:
        self._before, _, self._after = encode(body_of(_MARK)).rpartition(encode(_MARK))

    def write(self, text: str) -> bytes:
        return self._before + encode(text) + self._after
