"""PURE: how likely the tokens of an answer were, and where OpenAI's shapes say so."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan

_LEAST = -9999.0
"""Instead of minus infinity, which JSON has not: what OpenAI and vLLM write."""

UNKNOWN = nan
"""Of a prompt's first token: nothing is before it."""


@dataclass(frozen=True, slots=True)
class TokenScore:
    """How likely a token was."""

    text: str
    content: bytes
    """Of the text; of a token that is a part of a character that part."""

    log_prob: float
    """Natural logarithm of the model's own probability, before any sampling rule."""

    others: tuple["TokenScore", ...] = ()
    """The likeliest tokens at its place, as many as were requested."""

    span: tuple[int, int] | None = None
    """Of a token of an echoed prompt: where its text begins in that, and the next one's."""

    def to_wire(self) -> dict[str, object]:
        """Return OpenAI's object of one token of a chat, without the others."""
        return {
            "token": self.text,
            "logprob": max(self.log_prob, _LEAST),
            "bytes": list(self.content),
        }


class HeldScores:
    """Passes scores on with the text of their tokens, which may be held back or cut off."""

    def __init__(self) -> None:
        self._held: deque[tuple[int, TokenScore]] = deque()
        """Where the token's text begins, and its score."""

        self._seen = 0
        self._shown = 0

    def push(self, text: str, scores: Sequence[TokenScore], shown: str) -> tuple[TokenScore, ...]:
        """Take a token's text and what of all text is shown now; return the scores that go with it.

        A token of which not a character is shown waits: it may be part of a stop string.
        """
        self._held.extend((self._seen, score) for score in scores)
        self._seen += len(text)
        self._shown += len(shown)
        ready = []
        while self._held and self._held[0][0] < self._shown:
            ready.append(self._held.popleft()[1])
        return tuple(ready)

    def flush(self) -> tuple[TokenScore, ...]:
        """Return the scores that wait, once no more text comes."""
        ready = tuple(score for _, score in self._held)
        self._held.clear()
        return ready


def of_chat(scores: Sequence[TokenScore]) -> dict[str, object]:
    """Return `logprobs` of a choice of a chat."""
    content = [
        {**score.to_wire(), "top_logprobs": [other.to_wire() for other in score.others]}
        for score in scores
    ]
    return {"content": content, "refusal": None}


def of_text(scores: Sequence[TokenScore], offset: int) -> dict[str, object]:
    """Return `logprobs` of a choice of a text completion.

    Args:
        scores: of its tokens, in order.
        offset: characters of the text before them.
    """
    offsets = []
    for score in scores:
        begin, end = score.span or (offset, offset + len(score.text))
        offsets.append(begin)
        offset = end
    return {
        "tokens": [score.text for score in scores],
        "token_logprobs": [
            None if isnan(score.log_prob) else max(score.log_prob, _LEAST) for score in scores
        ],
        "top_logprobs": [_by_text(score.others) or None for score in scores],
        "text_offset": offsets,
    }


def _by_text(likeliest: Sequence[TokenScore]) -> dict[str, float]:
    """Return text -> score; of tokens of one text, such as parts of characters, the likeliest."""
    found: dict[str, float] = {}
    for one in likeliest:
        score = max(one.log_prob, _LEAST)
        found[one.text] = max(score, found.get(one.text, score))
    return found


def mean_log_prob(scores: Sequence[TokenScore]) -> float:
    """Return how likely an answer is for its length, its prompt aside; by it `best_of` chooses."""
    own = [score.log_prob for score in scores if score.span is None]
    return sum(own) / max(1, len(own))
