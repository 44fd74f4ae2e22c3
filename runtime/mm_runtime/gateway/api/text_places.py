"""PURE: where the texts of tokens are in a text that they make together."""

from collections.abc import Iterator, Sequence
from typing import Protocol

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_REPLACED = _REPLACEMENT.encode()


class Spelt(Protocol):
    """A token."""

    @property
    def text(self) -> str:
        """As it stands in the midst of an answer."""

    @property
    def content(self) -> bytes:
        """Of the text in UTF-8; of a token that is a part of a character that part."""


def spans_of(
    written: str, tokens: Sequence[Spelt], *, left_out: bool = False
) -> Iterator[tuple[int, int]]:
    """Yield where the text of each token begins and ends in a text, in characters.

    A first token that is not in the text, for it begins every prompt, has no width. Of parts of a
    character the first ones begin at it, and end there. The last token ends with the text.

    `tokens`: of it, in order. `left_out`: special tokens have no text, as in answers: what the text
    has not has no width.
    """
    data = written.encode(errors="replace")
    characters = _characters(data)
    at = 0
    for place, token in enumerate(tokens):
        begin = at
        if _REPLACEMENT in token.text and _is_replaced(tokens[place : place + 3], data, at):
            at += len(_REPLACED)
        else:
            at = min(at + _width(token, data, at, absent=left_out or place == 0), len(data))
        last = place == len(tokens) - 1
        yield characters[begin], len(written) if last else characters[at]


def _width(token: Spelt, data: bytes, at: int, *, absent: bool) -> int:
    """Return how many bytes of a text are those of the token that comes next.

    `absent`: it may be no part of the text.
    """
    # The first token of a text loses its blank in some tokenizers.
    for content in (token.content, token.content.lstrip(b" ")):
        if content and data.startswith(content, at):
            return len(content)
    return 0 if absent or _REPLACEMENT in token.text else len(token.content)


def _is_replaced(tokens: Sequence[Spelt], data: bytes, at: int) -> bool:
    made = b"".join(token.content for token in tokens)
    return data.startswith(_REPLACED, at) and not made.startswith(_REPLACED)


def _characters(data: bytes) -> Sequence[int]:
    """Return how many characters are complete before each byte of a text, and after the last."""
    if data.isascii():
        return range(len(data) + 1)
    counts, complete = [0], 0
    left = 0
    for byte in data:
        left = left - 1 if left else _length(byte) - 1
        complete += not left
        counts.append(complete)
    return counts


def _length(first: int) -> int:
    return next((n for n, least in ((4, 0xF0), (3, 0xE0), (2, 0xC0)) if first >= least), 1)
