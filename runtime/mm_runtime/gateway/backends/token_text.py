"""PURE: the text of one answer, of token ids as they come."""

from collections.abc import Callable, Sequence

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""What a decoder writes for bytes that are no complete character yet."""

MOST_HELD = 32
"""Tokens without text after which no more of them are awaited: a character has four bytes, and an
answer of broken ones, or of special tokens, would be decoded from its start again and again."""

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
        """From where decoding begins."""

        self._given = 0
        """Those of them whose text was given out."""

        self.tokens = 0
        """All tokens so far."""

    def push(self, tokens: Sequence[int]) -> str:
        self.tokens += len(tokens)
        if len(tokens) > 1:
            self._ids += tokens
            added = self._added()
            if added and not added.endswith(REPLACEMENT):
                return self._give_out(added)
            # One of them is the first of an incomplete character; those before it have text.
            del self._ids[-len(tokens) :]
        return "".join([self._push_one(token) for token in tokens])

    def end(self) -> str:
        return self._added()

    def _push_one(self, token: int) -> str:
        self._ids.append(token)
        added = self._added()
        is_last_try = len(self._ids) - self._given > MOST_HELD
        if added and (is_last_try or not added.endswith(REPLACEMENT)):
            return self._give_out(added)
        if is_last_try:
            del self._ids[self._given :]
        return ""

    def _give_out(self, added: str) -> str:
        del self._ids[: self._given]
        self._given = len(self._ids)
        return added

    def _added(self) -> str:
        known = self._decode(self._ids[: self._given])
        return self._decode(self._ids)[len(known) :]
