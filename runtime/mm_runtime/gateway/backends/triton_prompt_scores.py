"""PURE: how likely the tokens of an echoed prompt were, from the tensors of its first response."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from mm_runtime.gateway.api.scores import UNKNOWN, TokenScore
from mm_runtime.gateway.backends.token_text import REPLACEMENT
from mm_runtime.gateway.backends.triton_client import tensor_of
from mm_runtime.gateway.backends.triton_scores import Spell
from mm_runtime.gateway.errors import engine_failed
from mm_runtime.repository.configs.prompt_ensemble import (
    IDS,
    LIKELIEST_IDS,
    LIKELIEST_LOG_PROBS,
    LOG_PROBS,
)
from mm_runtime.serving.prompts.spelling import Spelled

PROMPT_OUTPUTS = (IDS, LOG_PROBS, LIKELIEST_IDS, LIKELIEST_LOG_PROBS)
"""Outputs that hold them."""

_REPLACED = REPLACEMENT.encode()


def read_prompt_scores(
    result: Any, written: str, likeliest: int, spell: Spell
) -> tuple[TokenScore, ...]:
    """Return the score of each token of a prompt; the first one's is unknown.

    Args:
        result: the first response.
        written: the prompt, as it is echoed.
        likeliest: how many others each token has beside itself.
        spell: of the tokenizer.

    Raises:
        EngineFailedError: the response lacks some.
    """
    found = [tensor_of(result, name) for name in PROMPT_OUTPUTS]
    if any(one is None for one in found):
        raise engine_failed()
    ids, own, others, values = (one.reshape(-1).tolist() for one in found if one is not None)
    count = len(ids)
    if len(own) != count or (likeliest and not len(others) == len(values) == count * likeliest):
        raise engine_failed()
    known = cache(spell)
    spelled = [known(token) for token in ids]
    scores = []
    for place, (one, span) in enumerate(zip(spelled, spans_of(written, spelled), strict=True)):
        if place == 0:
            scores.append(TokenScore(one.text, one.content, UNKNOWN, span=span))
            continue
        row = slice(place * likeliest, (place + 1) * likeliest)
        beside = tuple(
            TokenScore(known(token).text, known(token).content, value)
            for token, value in zip(others[row], values[row], strict=True)
        )
        score = TokenScore(one.text, one.content, own[place])
        scores.append(TokenScore(one.text, one.content, own[place], (score, *beside), span))
    return tuple(scores)


def spans_of(written: str, tokens: Sequence[Spelled]) -> Iterator[tuple[int, int]]:
    """Yield where the text of each token begins and ends in a text, in characters.

    A first token that is not in the text, for it begins every prompt, has no width. Of parts of a
    character the first ones begin at it, and end there. The last token ends with the text.
    """
    data = written.encode(errors="replace")
    characters = _characters(data)
    at = 0
    for place, token in enumerate(tokens):
        begin = at
        at = min(at + _width(token, data, at, first=place == 0), len(data))
        last = place == len(tokens) - 1
        yield characters[begin], len(written) if last else characters[at]


def _width(token: Spelled, data: bytes, at: int, *, first: bool) -> int:
    """Return how many bytes of a text are those of the token that comes next."""
    # The first token of a text loses its blank in some tokenizers; bytes that are no character are
    # replaced in the text.
    lost = _REPLACED if REPLACEMENT in token.text else b""
    for content in (token.content, token.content.lstrip(b" "), lost):
        if content and data.startswith(content, at):
            return len(content)
    return 0 if first or lost else len(token.content)


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
    """Return the bytes of a character that begins with this one."""
    return next((n for n, least in ((4, 0xF0), (3, 0xE0), (2, 0xC0)) if first >= least), 1)
