"""PURE: the text of one answer, token by token, for engines that give out token ids alone."""

from collections.abc import Callable, Sequence

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""What a decoder writes for bytes that are no complete character yet."""

Decode = Callable[[Sequence[int]], str]


class TokenText:
    """Pieces that, joined, are the text of all tokens.

    Decoding begins a few tokens back, at the piece before the last that had text: what a token adds
    depends on its neighbours, and decoding all of an answer each time would cost its square.
    """

    def __init__(self, decode: Decode) -> None:
        """Begin an answer; `decode` turns token ids into text, special tokens left out."""
        self._decode = decode
        self._ids: list[int] = []
        self._start = 0
        """Where decoding begins."""

        self._given = 0
        """Tokens whose text was given out."""

    @property
    def tokens(self) -> int:
        """Return the number of tokens so far."""
        return len(self._ids)

    def push(self, token: int) -> str:
        """Return what a token adds; nothing while a character is incomplete."""
        self._ids.append(token)
        added = self._added()
        if not added or added.endswith(REPLACEMENT):
            return ""
        self._start, self._given = self._given, len(self._ids)
        return added

    def end(self) -> str:
        """Return what is held back: nothing can complete it any more."""
        return self._added()

    def _added(self) -> str:
        known = self._decode(self._ids[self._start : self._given])
        return self._decode(self._ids[self._start :])[len(known) :]
