"""How the tokens of an answer are drawn: what a request says, and the model's defaults."""

import secrets
from dataclasses import replace
from typing import Any

from mm_edge.errors import InvalidRequestError
from mm_runtime.gateway.api.audio import TranscriptionRequest
from mm_runtime.gateway.api.openai import ChatRequest, CompletionRequest
from mm_runtime.gateway.api.served_model import ServedModel
from mm_runtime.gateway.backends.engine import Sampling
from mm_runtime.serving.sampling_table import OF_TOKENS


def sampling_of(
    request: ChatRequest | CompletionRequest | TranscriptionRequest,
    model: ServedModel,
    *,
    most: int,
) -> Sampling:
    """Return how an answer of at most so many tokens is drawn.

    Raises:
        InvalidRequestError: a token that the model has not, or more tokens at the least than most.
    """
    # A mass of nothing is held by the likeliest token, as OpenAI has it; engines refuse the number.
    likeliest = request.top_p == 0
    given = {one.name: getattr(request, one.name, None) for one in OF_TOKENS}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    chosen |= {
        "temperature": model.temperature if request.temperature is None else request.temperature,
        "top_p": 1.0 if likeliest else model.top_p if request.top_p is None else request.top_p,
        # The engine's own default seed is a constant: every sample would be the same.
        "seed": secrets.randbits(64) if request.seed is None else request.seed % 2**64,
        "top_k": 1 if likeliest else max(0, request.top_k or 0),
    }
    sampling = Sampling(**chosen)
    if isinstance(request, TranscriptionRequest):
        return sampling
    least = request.min_tokens or 0
    if least > most:
        raise InvalidRequestError(
            f"`min_tokens` is {least}; the answer has {most} tokens at the most.",
            param="min_tokens",
        )
    bias = request.logit_bias or {}
    named = (*bias, *(request.stop_token_ids or ()))
    if named and max(named) >= model.vocabulary_size:
        raise InvalidRequestError(
            f"Token {max(named)} is none of the model's, which are below {model.vocabulary_size}.",
            param="logit_bias" if max(named) in bias else "stop_token_ids",
        )
    return replace(sampling, ignores_end=bool(request.ignore_eos), bias=tuple(bias.items()))
