"""PURE: how likely tokens were, from the tensors of a response."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_runtime.backends.triton_server.client import tensor_of
from mm_runtime.gateway.api.scores import TokenScore
from mm_runtime.gateway.backends.engine import EngineRequest
from mm_runtime.gateway.errors import engine_failed
from mm_runtime.repository.configs.scored_ensemble import (
    LIKELIEST_IDS,
    LIKELIEST_LOG_PROBS,
    LOG_PROBS,
)
from mm_runtime.serving.prompts.spelling import Spelled

Spell = Callable[[int], Spelled]


def scores_of(request: EngineRequest) -> tuple[str, ...]:
    """Return the outputs that hold the scores that a request wants."""
    if request.likeliest is None:
        return ()
    return (LOG_PROBS, LIKELIEST_IDS, LIKELIEST_LOG_PROBS) if request.likeliest else (LOG_PROBS,)


def read_scores(
    result: Any, tokens: Sequence[int], likeliest: int, spell: Spell
) -> list[TokenScore]:
    """Return the score of each token of a response's one beam.

    `likeliest`: how many others each token has beside itself.

    Raises:
        EngineFailedError: the response has fewer scores than tokens, or one that is no number.
    """
    count = len(tokens)
    own = tensor_of(result, LOG_PROBS)
    # An engine may repeat those of earlier responses in front.
    found = [] if own is None else own.reshape(-1)[-count:].tolist()
    if own is None or len(found) < count:
        raise engine_failed()
    check_numbers(own.reshape(-1)[-count:])
    others: list[tuple[TokenScore, ...]] = [()] * count
    if likeliest:
        ids, log_probs = (tensor_of(result, one) for one in (LIKELIEST_IDS, LIKELIEST_LOG_PROBS))
        if ids is None or log_probs is None or ids.size != count * likeliest:
            raise engine_failed()
        check_numbers(log_probs)
        pairs = np.stack((ids.reshape(count, -1), log_probs.reshape(count, -1)), axis=-1)
        others = [
            tuple(_score(int(token), value, spell) for token, value in row)
            for row in pairs.tolist()
        ]
    return [
        _score(token, log_prob, spell, beside)
        for token, log_prob, beside in zip(tokens, found, others, strict=True)
    ]


def check_numbers(log_probs: NDArray[Any]) -> None:
    """Refuse scores of a model that computes NaN or infinity; minus infinity is a probability of 0.

    Raises:
        EngineFailedError: one is NaN or infinite.
    """
    if not bool((log_probs < np.inf).all()):
        raise engine_failed()


def _score(
    token: int, log_prob: float, spell: Spell, others: tuple[TokenScore, ...] = ()
) -> TokenScore:
    spelled = spell(token)
    return TokenScore(spelled.text, spelled.content, log_prob, others)
