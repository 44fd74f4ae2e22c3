"""PURE: how likely the tokens of an echoed prompt were, from the tensors of its first response."""

from functools import cache
from typing import Any

from mm_runtime.gateway.api.scores import UNKNOWN, TokenScore
from mm_runtime.gateway.api.text_places import spans_of
from mm_runtime.gateway.backends.triton_client import tensor_of
from mm_runtime.gateway.backends.triton_scores import Spell, check_numbers
from mm_runtime.gateway.errors import engine_failed
from mm_runtime.repository.configs.prompt_ensemble import (
    IDS,
    LIKELIEST_IDS,
    LIKELIEST_LOG_PROBS,
    LOG_PROBS,
    RANKS,
)

PROMPT_OUTPUTS = (IDS, LOG_PROBS, RANKS, LIKELIEST_IDS, LIKELIEST_LOG_PROBS)
"""Outputs that hold them."""


def read_prompt_scores(
    result: Any, written: str, likeliest: int, spell: Spell
) -> tuple[TokenScore, ...]:
    """Return the score of each token of a prompt; the first one's is unknown.

    Args:
        result: the first response.
        written: the prompt, as it is echoed; empty: it is not.
        likeliest: how many others each token has beside itself.
        spell: of the tokenizer.

    Raises:
        EngineFailedError: the response lacks some, or has one that is no number.
    """
    found = [tensor_of(result, name) for name in PROMPT_OUTPUTS]
    if any(one is None for one in found):
        raise engine_failed()
    for tensor in (found[1], found[-1]):
        if tensor is not None:
            check_numbers(tensor)
    ids, own, ranks, others, values = (one.reshape(-1).tolist() for one in found if one is not None)
    count = len(ids)
    if not len(own) == len(ranks) == count or (
        likeliest and not len(others) == len(values) == count * likeliest
    ):
        raise engine_failed()
    known = cache(spell)
    spelled = [known(token) for token in ids]
    scores = []
    for place, (one, (begin, _)) in enumerate(
        zip(spelled, spans_of(written, spelled), strict=True)
    ):
        if place == 0:
            scores.append(TokenScore(one.text, one.content, UNKNOWN, begin=begin))
            continue
        row = slice(place * likeliest, (place + 1) * likeliest)
        beside = tuple(
            TokenScore(known(token).text, known(token).content, value, token=token, rank=rank)
            for rank, (token, value) in enumerate(
                zip(others[row], values[row], strict=True), start=1
            )
        )
        score = TokenScore(one.text, one.content, own[place], token=ids[place], rank=ranks[place])
        scores.append(TokenScore(one.text, one.content, own[place], (score, *beside), begin))
    return tuple(scores)
