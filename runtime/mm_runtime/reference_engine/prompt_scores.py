"""What a pass says of the prompt that it reads: all logits, or how likely each token was.

Scores are reduced where the logits are, some rows at a time, so that neither a GPU nor the process
ever holds [tokens, vocabulary] of a prompt whose scores are wanted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mm_runtime.serving.device import fetching, sent
from mm_runtime.serving.errors import NotFiniteError
from mm_runtime.serving.generate.request import PromptScores, Request

SCORED_ROWS = 64
"""Rows whose logits exist at one time: as many as a GPU's plan counts (`load.GPU_LOGITS_ROWS`)."""

SCORED_AT_ONCE = 4 << 20
"""Log probabilities that are compared at one time, in 16 MB: 64 rows of 65,536 words. The plan has
64 MB for those of answers (`choosing.VALUES_AT_ONCE`), which are not compared meanwhile."""

Logits = Callable[[torch.Tensor], torch.Tensor]
"""States [n, ...] -> float32 logits [n, vocabulary]."""

Scored = list[list[float]]
"""Of each row: the next token's log probability and rank, the likeliest ones' and their ids."""


@dataclass(frozen=True)
class Context:
    """Of some rows of a prompt."""

    logits: Sequence[NDArray[np.float32]] = ()
    """[rows, vocabulary] each, where they are wanted."""

    scores: Sequence[Callable[[], Scored]] = ()
    """What waits for scores, where they are wanted."""


def context_of(
    request: Request, start: int, states: torch.Tensor, logits: Logits, rows: int
) -> Context:
    """Return what a request wants of the rows of its prompt; scores are not waited for.

    Args:
        request: whose prompt was read.
        start: position of the first row.
        states: of each row.
        logits: makes logits of states.
        rows: whose logits are computed at one time, where all of them are wanted.
    """
    wanted = request.wanted
    scores: list[Callable[[], Scored]] = []
    if wanted.prompt_likeliest is not None:
        # What the last row of a prompt says is the answer's first token.
        after = request.ids[start + 1 : start + 1 + len(states)]
        for at in range(0, len(after), SCORED_ROWS):
            tokens = after[at : at + SCORED_ROWS]
            found = scored(logits(states[at : at + len(tokens)]), tokens, wanted.prompt_likeliest)
            scores.append(fetching(found))
    all_logits = rows_at_once(states, logits, rows) if wanted.context_logits else ()
    return Context(all_logits, scores)


def scored(logits: torch.Tensor, tokens: Sequence[int], likeliest: int) -> torch.Tensor:
    """Return how likely each row's token was, and so many tokens at its place.

    Args:
        logits: float32 [rows, vocabulary], which stay as they are.
        tokens: one a row.
        likeliest: at least 0.

    Returns:
        `Scored` as float64 [rows, 2 + 2 likeliest], which holds each id exactly.
    """
    places = sent(torch.tensor(tokens), logits.device)[:, None]
    rows = max(1, SCORED_AT_ONCE // logits.shape[-1])
    parts = []
    for at in range(0, len(tokens), rows):
        log_probs = logits[at : at + rows].log_softmax(dim=-1)
        values, ids = log_probs.topk(likeliest)
        own = log_probs.gather(1, places[at : at + rows])
        ranks = 1 + (log_probs > own).sum(dim=1, keepdim=True)
        columns = (own.double(), ranks.double(), values.double(), ids.double())
        parts.append(torch.cat(columns, dim=1))
    return torch.cat(parts)


def rows_at_once(states: torch.Tensor, logits: Logits, count: int) -> list[NDArray[np.float32]]:
    """Return the logits [rows, vocabulary] of states [rows, ...], some of the rows at a time."""
    return [logits(states[at : at + count]).cpu().numpy() for at in range(0, len(states), count)]


def joined(request: Request, rows: Scored) -> PromptScores | None:
    """Return the scores of a complete prompt; None: they are not wanted.

    Args:
        request: whose prompt it is.
        rows: of all its tokens but the first.

    Raises:
        NotFiniteError: a score is NaN.
    """
    likeliest = request.wanted.prompt_likeliest
    if likeliest is None:
        return None
    table = np.zeros((len(request.ids), 2 + 2 * likeliest))
    table[0, 2 + likeliest :] = -1
    if rows:
        table[1:] = rows
    if np.isnan(table).any():
        raise NotFiniteError("the logits of the prompt are not finite: NaN, or infinity")
    return PromptScores(
        ids=request.ids,
        log_probs=table[:, 0].astype(np.float32),
        ranks=table[:, 1].astype(np.int32),
        likeliest=table[:, 2 + likeliest :].astype(np.int32),
        likeliest_log_probs=table[:, 2 : 2 + likeliest].astype(np.float32),
    )
