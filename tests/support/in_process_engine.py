"""An engine of the gateway's protocol that answers with a built engine, in this process."""

import asyncio
from collections.abc import AsyncGenerator

import numpy as np

from mm_runtime.engine_build.commands.in_process import COUNT, LOGITS, TOKENS, InProcess, greedy
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.scores import TokenScore
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from mm_runtime.gateway.errors import InvalidRequestError


class InProcessEngine:
    """Answers greedily, each token with its log probability."""

    def __init__(self, models: InProcess, *, scored: bool = True) -> None:
        self._models = models
        self._scored = scored

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        """Answer a request; it streams nothing before the end."""
        if request.likeliest is not None and not self._scored:
            raise InvalidRequestError("`logprobs` are not served.", param="logprobs")
        inputs = greedy(request.prompt, request.max_tokens)
        if request.images:
            inputs["image_bytes_input"] = np.stack(request.images)[np.newaxis]
        (piece,) = await asyncio.to_thread(self._models.answer, inputs)
        tokens = piece[TOKENS].reshape(-1)[: int(piece[COUNT].item())].tolist()
        rows = piece[LOGITS].reshape(-1, piece[LOGITS].shape[-1])
        before = ""
        for number, (token, row) in enumerate(zip(tokens, rows, strict=False), 1):
            text = self._models.decoded(tokens[:number])
            added, before = text[len(before) :], text
            log_prob = float(row[token] - np.logaddexp.reduce(row.astype(np.float64)))
            yield Text(added, 1, (TokenScore(added, added.encode(), log_prob),))
        full = len(tokens) == request.max_tokens
        yield Ended(FinishReason.LENGTH if full else FinishReason.STOP, len(tokens))

    async def is_ready(self) -> bool:
        return True
