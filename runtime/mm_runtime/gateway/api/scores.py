"""PURE: how likely the tokens of an answer were, and where OpenAI's shapes say so."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

_LEAST = -9999.0
"""Instead of minus infinity, which JSON has not: what OpenAI and vLLM write."""


@dataclass(frozen=True, slots=True)
class TokenScore:
    """How likely a token was."""

    text: str
    content: bytes
    """Bytes of the text; of a token that is a part of a character that part."""

    log_prob: float
    """Natural logarithm of the model's own probability, before any sampling rule."""

    others: tuple["TokenScore", ...] = ()
    """The likeliest tokens at its place, as many as were requested."""

    begin: int = 0
    """Characters of its choice's text before its own, where it has a place in one. Parts of a
    character begin where that does."""

    def to_wire(self) -> dict[str, object]:
        """Return OpenAI's object of one token of a chat, without the others."""
        return {
            "token": self.text,
            "logprob": max(self.log_prob, _LEAST),
            "bytes": list(self.content),
        }


class HeldScores:
    """Passes scores on with the text of their tokens, which may be held back or cut off.

    It is known here, and not where answers are written, where the text of each token begins: a
    stream and a plain answer say the same.
    """

    def __init__(self) -> None:
        self._textless: list[TokenScore] = []
        """The last ones, without text so far: they may be parts of a character."""

        self._held: deque[TokenScore] = deque()
        self._seen = self._shown = 0

    def push(self, text: str, scores: Sequence[TokenScore], shown: str) -> tuple[TokenScore, ...]:
        """Take a token's text and what of all text is shown now; return the scores that go with it.

        A token of which not a character is shown waits: it may be part of a stop string.
        """
        self._textless += scores
        self._shown += len(shown)
        if text:
            self._place(text)
        ready = []
        while self._held and self._held[0].begin < self._shown:
            ready.append(self._held.popleft())
        return tuple(ready)

    def flush(self) -> tuple[TokenScore, ...]:
        self._place("")
        ready = tuple(self._held)
        self._held.clear()
        return ready

    def _place(self, text: str) -> None:
        """Take where tokens begin that had no text: what is not in it has no width."""
        at = 0
        for score in self._textless:
            self._held.append(replace(score, begin=self._seen + at))
            at += len(score.text) if text.startswith(score.text, at) else 0
        self._textless.clear()
        self._seen += len(text)


def of_chat(scores: Sequence[TokenScore]) -> dict[str, object]:
    content = [
        {**score.to_wire(), "top_logprobs": [other.to_wire() for other in score.others]}
        for score in scores
    ]
    return {"content": content, "refusal": None}


def of_text(scores: Sequence[TokenScore]) -> dict[str, object]:
    return {
        "tokens": [score.text for score in scores],
        "token_logprobs": [max(score.log_prob, _LEAST) for score in scores],
        "top_logprobs": [_by_text(score.others) or None for score in scores],
        "text_offset": [score.begin for score in scores],
    }


def _by_text(likeliest: Sequence[TokenScore]) -> dict[str, float]:
    """Return text -> score; of tokens of one text, such as parts of characters, the likeliest."""
    found: dict[str, float] = {}
    for one in likeliest:
        score = max(one.log_prob, _LEAST)
        found[one.text] = max(score, found.get(one.text, score))
    return found


def mean_log_prob(scores: Sequence[TokenScore]) -> float:
    """Return how likely an answer is for its length."""
    return sum(score.log_prob for score in scores) / max(1, len(scores))
