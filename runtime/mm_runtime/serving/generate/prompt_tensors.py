"""PURE: scores of prompts as tensors of the model `tensorrt_llm`."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.request import PromptScores
from mm_runtime.serving.prompts.words import PADDING
from mm_runtime.serving.tensors import Tensors, scalar

MOST_LIKELIEST = 20
"""As OpenAI's API."""


def read_wanted(inputs: Tensors, vocabulary_size: int) -> int | None:
    """Return how many likeliest tokens beside each of the prompt are wanted; None: no scores.

    Raises:
        RequestError: more than are reported, fewer than none, or with beams.
    """
    wanted = scalar(inputs, "score_prompt")
    if wanted is None:
        return None
    most = min(MOST_LIKELIEST, vocabulary_size)
    if not 0 <= wanted <= most:
        raise RequestError(f"score_prompt is {wanted}; 0 to {most} are reported")
    if (scalar(inputs, "beam_width") or 1) > 1:
        raise RequestError("score_prompt is not served with beams; leave one of both out")
    return int(wanted)


def _row(values: NDArray[Any]) -> NDArray[Any]:
    """Return a batch of one; a tensor of nothing holds one value."""
    if values.size:
        return values[np.newaxis]
    return np.full((1,) * (1 + values.ndim), PADDING, dtype=values.dtype)


_NONE = PromptScores(
    ids=(),
    log_probs=np.empty(0, np.float32),
    ranks=np.empty(0, np.int32),
    likeliest=np.empty((0, 0), np.int32),
    likeliest_log_probs=np.empty((0, 0), np.float32),
)

WRITERS: Mapping[str, Callable[[PromptScores], NDArray[Any]]] = {
    "prompt_token_ids": lambda found: _row(np.array(found.ids, dtype=np.int32)),
    "prompt_log_probs": lambda found: _row(found.log_probs),
    "prompt_ranks": lambda found: _row(found.ranks),
    "prompt_likeliest_ids": lambda found: _row(found.likeliest),
    "prompt_likeliest_values": lambda found: _row(found.likeliest_log_probs),
}
"""Output -> what makes it of scores."""


def write(name: str, found: PromptScores | None) -> NDArray[Any]:
    """Return one of these outputs; of a response without scores each holds one value below 0."""
    return WRITERS[name](found or _NONE)
