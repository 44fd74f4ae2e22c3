"""What one token is as a piece of an answer: its text, and the bytes behind it."""

import re
from dataclasses import dataclass
from typing import Any

from mm_runtime.serving.prompts.byte_letters import byte_letters

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
"""How vocabularies of SentencePiece name a byte."""

_BYTES = {letter: byte for byte, letter in byte_letters().items()}


@dataclass(frozen=True, slots=True)
class Spelled:
    """One token."""

    text: str
    """As it stands in the midst of an answer: with its blank, if it begins a word."""

    content: bytes
    """Bytes of the text in UTF-8; of a token that is a part of a character that part."""


class Speller:
    """Spells tokens of one tokenizer (of the library `tokenizers`)."""

    def __init__(self, tokenizer: Any) -> None:
        """Find a token before which no other loses its blank, as the first of a text does."""
        self._tokenizer = tokenizer
        ids = tokenizer.encode("a", add_special_tokens=False).ids
        self._before = ids[-1:]
        self._given = self._decoded(self._before)
        twice = self._decoded([*self._before, *self._before])
        self.strips_first = twice.removeprefix(self._given) != self._given
        """Whether a text's first token loses its blank."""

    def spell(self, token: int) -> Spelled:
        """Return a token's text and bytes; of an id without a token both are empty."""
        text = self._decoded([*self._before, token]).removeprefix(self._given)
        if _REPLACEMENT not in text:
            return Spelled(text, text.encode(errors="replace"))
        return Spelled(text, self._bytes(token, text))

    def _bytes(self, token: int, text: str) -> bytes:
        name = self._tokenizer.id_to_token(token) or ""
        if found := _BYTE.fullmatch(name):
            return bytes([int(found[1], 16)])
        if name and all(letter in _BYTES for letter in name):
            return bytes(_BYTES[letter] for letter in name)
        return text.encode(errors="replace")

    def _decoded(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=False)
        return text
