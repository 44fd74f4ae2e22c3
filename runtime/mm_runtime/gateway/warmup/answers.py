"""Greedy answers of the server to prompts of the project's own."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from mm_api.documents.evaluation import EvaluationPrompt
from mm_edge.errors import InvalidRequestError
from mm_runtime.base.chat_template import Media, Turn
from mm_runtime.gateway.backends.engine import LIKELIEST, EngineRequest, Text
from mm_runtime.gateway.dataplane import ChatService
from mm_runtime.gateway.warmup.agreement import Served
from mm_runtime.images.sample import evaluation_images
from mm_runtime.serving.preprocess.audio.tones import tone

_log = logging.getLogger(__name__)

_OWN_ALONE = 0
"""`EngineRequest.likeliest`: log probabilities of the chosen tokens, of no others."""


class Answers:
    """Sends prompts past the dataplane; without `question` the server writes that of a message."""

    def __init__(
        self,
        service: ChatService,
        seconds: float,
        question: Callable[[Turn], str] | None = None,
    ) -> None:
        self._service = service
        self._question = question
        self._seconds = seconds
        self._likeliest: int | None = _OWN_ALONE

    async def to_prompt(self, prompt: EvaluationPrompt) -> Served:
        """Return the answer to a prompt of the evaluation, with log probabilities where they are.

        Raises:
            GatewayError: a stage refused or failed.
            TimeoutError: no answer in time.
        """
        image, hertz = prompt.image, prompt.audio_hertz
        request = _request(
            prompt.text,
            images=() if image is None else (evaluation_images()[image],),
            audio=None if hertz is None else tone(hertz),
            max_tokens=len(prompt.steps),
            adapter=prompt.adapter,
        )
        if self._question is not None:
            request = replace(request, prompt=self._question(request.turns[0]))
        served = await self._scored(request)
        if self._question is None or prompt.steps[0].candidates[0].text.startswith(" "):
            return served
        # Decoded behind the prompt, a first word has the space that it lacks alone.
        return replace(served, text=served.text.removeprefix(" "))

    async def _scored(self, request: EngineRequest) -> Served:
        if self._likeliest is not None:
            try:
                return await self._answer(replace(request, likeliest=self._likeliest))
            except InvalidRequestError as error:
                _log.info("evaluation: tokens alone are compared: %s", error)
                self._likeliest = None
        return await self._answer(request)

    async def _answer(self, request: EngineRequest) -> Served:
        admission = self._service.admission
        async with asyncio.timeout(self._seconds):
            with admission.admit():
                async with (
                    admission.slot(),
                    aclosing(self._service.engine.generate(request)) as events,
                ):
                    texts = [event async for event in events if isinstance(event, Text)]
        return Served(
            "".join(one.text for one in texts),
            tuple(score.log_prob for one in texts for score in one.scores),
        )


def _request(
    text: str,
    *,
    images: tuple[NDArray[np.uint8], ...],
    audio: NDArray[np.float32] | None,
    max_tokens: int,
    adapter: int | None = None,
) -> EngineRequest:
    """Return a request; a server that writes the prompt itself gets it as one user's message."""
    return EngineRequest(
        request_id=f"warm-up-{uuid4().hex}",
        prompt=text,
        images=images,
        audio=audio,
        max_tokens=max_tokens,
        sampling=LIKELIEST,
        turns=(Turn("user", (*(Media.IMAGE for _ in images), text)),),
        adapter=adapter,
    )
