"""Warm-up before readiness: requests at the limits of the plan, then one real prompt.

A server that loads is not a server that answers: a wrong vision engine or prompt table shows only
in an answer, and a pool or an engine that is too small only in the largest request. All of it is
repeated when Triton was away in between. Nothing of it is in the users' metrics.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from uuid import uuid4

from PIL import Image

from mm_api.documents.evaluation import EvaluationReport
from mm_api.documents.server_state import PROBLEM_CHARACTERS
from mm_api.quoted_text import steady
from mm_edge.errors import InvalidRequestError
from mm_runtime.base.chat_template import Turn
from mm_runtime.gateway.dataplane import ChatService
from mm_runtime.gateway.metrics import GatewayMetrics
from mm_runtime.gateway.phase import Phase
from mm_runtime.gateway.preparation import AnyRequest
from mm_runtime.gateway.prepared import PreparedRequest
from mm_runtime.gateway.warmup.answers import Answers
from mm_runtime.gateway.warmup.evaluation import Comparison, EvaluationFailedError
from mm_runtime.gateway.warmup.limit_requests import Probe, probes
from mm_runtime.gateway.warmup.own_requests import (
    Part,
    audio_part,
    image_part,
    question,
    transcription,
)
from mm_runtime.images.sample import sample_image
from mm_runtime.serving.preprocess.audio.tones import sample_audio

_log = logging.getLogger(__name__)

_LEAST_SECONDS = 60.0
"""For one request: the first one of a big engine warms kernels up. A user's gets the plan's time,
so a pod where the longest prompt takes more would only fail it later."""
_RETRY_SECONDS = 0.5
_WATCH_SECONDS = 2.0
_MAX_TOKENS = 4
_TEXT = "Are you ready?"
_AWAY = "Triton is not ready yet"


ALIKE_FAILURES = 3
"""Failures of the same words one after the other: a fourth try would not be luckier."""

ANY_FAILURES = 10
"""Failures of any words one after the other: an engine may answer otherwise each time."""


class Failures:
    """Failures of the warm-up since it passed, and when it counts as failed."""

    def __init__(self) -> None:
        self._count = self._alike = 0
        self._words = ""
        self.problem = ""
        """Why it fails each time; empty: it may still pass. It stays while words differ."""

    def add(self, words: str) -> None:
        words = steady(words[:PROBLEM_CHARACTERS])
        self._count += 1
        self._alike = self._alike + 1 if words == self._words else 1
        self._words = words
        if self._alike >= ALIKE_FAILURES or (self._count >= ANY_FAILURES and not self.problem):
            self.problem = words


class WarmUpFailedError(Exception):
    """Triton is away, or the path answered, but with nothing."""


class WarmUp:
    """Knows whether the path was tested end to end since Triton was last unavailable."""

    def __init__(
        self,
        service: ChatService,
        metrics: GatewayMetrics,
        *,
        most_pixels: int,
        request_seconds: float,
        comparison: Comparison | None = None,
        question: Callable[[Turn], str] | None = None,
    ) -> None:
        self.service = service
        self._metrics = metrics
        self._most_pixels = most_pixels
        self._seconds = max(_LEAST_SECONDS, request_seconds)
        self._answers = Answers(service, self._seconds, question)
        self._comparison = comparison
        self._refused = False
        self._current = ""
        self._problem = ""
        self._failures = Failures()
        self._phase = Phase.LOADING
        self._was_ready = asyncio.Event()
        self._enter(Phase.LOADING)

    async def state(self) -> tuple[Phase, str]:
        """Return what the pod does now, and the request that is sent or what went wrong."""
        if self._phase is Phase.READY and not await self.service.engine.is_ready():
            return Phase.LOADING, _AWAY
        summary = (self._current and f"sending {self._current}", self._problem)
        return self._phase, "; ".join(text for text in summary if text)

    async def first_ready(self) -> None:
        """Wait until the path was proved for the first time."""
        await self._was_ready.wait()

    @property
    def problem(self) -> str:
        """Why the warm-up fails each time; empty: it passed, or may still pass."""
        return self._failures.problem

    @property
    def evaluation(self) -> EvaluationReport | None:
        """How the engine compares with its checkpoint; None: not compared yet, or never."""
        return self._comparison.report if self._comparison else None

    async def watch(self) -> None:
        """Prove the path, then watch Triton, for ever.

        An engine that answers otherwise than its checkpoint is not tried again before its server
        was away: it would only give the same answers.
        """
        while True:
            if self._phase is Phase.READY or self._refused:
                await asyncio.sleep(_WATCH_SECONDS)
                if not await self.service.engine.is_ready():
                    self._enter(Phase.LOADING)
                    self._refused = False
                    _log.warning("Triton is not ready; the path is proved again when it is back")
                continue
            try:
                await self.prove()
            except EvaluationFailedError as error:
                self._refused = True
                self._note(error)
            except Exception as error:  # noqa: BLE001 - whatever it is, the pod stays unready and tries
                self._note(error)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self._current = self._problem = ""
                self._failures = Failures()
                self._enter(Phase.READY)
                _log.info("warm-up passed: the prompt was answered")

    async def prove(self) -> None:
        """Send the largest and smallest requests of the plan, then one real prompt.

        Raises:
            GatewayError: a stage refused or failed.
            WarmUpFailedError: Triton is away, or an answer was nothing.
            TimeoutError: no answer in time.
        """
        self._current = ""
        if not await self.service.engine.is_ready():
            self._enter(Phase.LOADING)
            raise WarmUpFailedError(_AWAY)
        self._enter(Phase.WARMING_UP)
        if self._problem == _AWAY:
            self._problem = ""
        began, sent = time.monotonic(), 0
        # A tokenizer and an image's encoder take a second where the limits are large.
        remaining = probes(self.service.preparation, most_pixels=self._most_pixels)
        while (probe := await asyncio.to_thread(next, remaining, None)) is not None:
            await self._warm_up(probe)
            sent += 1
        self._current = "the question that shows that it answers"
        await self._answered(await self.service.preparation.prepare(self._question()))
        if self._comparison is not None:
            await self._evaluate(self._comparison)
        took = time.monotonic() - began
        _log.info("%d requests at the limits of the plan, then prompts: %.1f s", sent, took)

    async def _evaluate(self, comparison: Comparison) -> None:
        """Send the prompts of the checkpoint's answers and compare."""
        answers = []
        for number, prompt in enumerate(comparison.prompts, 1):
            self._current = f"prompt {number} of the evaluation"
            answers.append(await self._answers.to_prompt(prompt))
        self._current = ""
        report = comparison.judge(answers)
        _log.info(
            "evaluation: the engine answers like its checkpoint: %d prompts, %d tokens compared, "
            "%d near-ties, log probabilities %s",
            report.prompts,
            report.tokens,
            report.near_ties,
            "not returned"
            if report.log_prob_distance is None
            else f"at most {report.log_prob_distance:.3f} apart",
        )

    async def _warm_up(self, probe: Probe) -> None:
        self._current = probe.name
        try:
            request = await self.service.preparation.prepare(probe.request)
        except InvalidRequestError as error:
            # What the gateway itself refuses reaches no engine.
            _log.info("%s is not sent: %s", probe.name, error)
            return
        await self._answered(request)

    async def _answered(self, request: PreparedRequest) -> None:
        async with asyncio.timeout(self._seconds):
            with self.service.admission.admit():
                events = self.service.answer(request, request_id=f"warm-up-{uuid4().hex}")
                async for _ in events:
                    pass

    def _note(self, error: Exception) -> None:
        """Keep what went wrong, and log it once; that Triton loads is no news over a failure."""
        summary = str(error) or f"no answer within {self._seconds:.0f} s"
        if self._current:
            summary = f"{self._current} failed: {summary}"
        elif self._problem and self._phase is Phase.LOADING:
            return
        self._current = ""
        if self._phase is Phase.WARMING_UP and not self._refused:
            self._failures.add(summary)
        if summary != self._problem:
            self._problem = summary
            _log.warning("warm-up failed, trying again: %s", summary)

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        if phase is Phase.READY:
            self._was_ready.set()
        self._metrics.set_phase(phase)

    def _question(self) -> AnyRequest:
        preparation = self.service.preparation
        if preparation.accepts_audio:
            return transcription(preparation, sample_audio(), max_tokens=_MAX_TOKENS)
        if not preparation.chats:
            return question(preparation, _TEXT, max_tokens=_MAX_TOKENS)
        media: list[Part] = []
        if self.service.preparation.model.max_images:
            media.append(image_part(Image.fromarray(sample_image())))
        if self.service.preparation.model.audio is not None:
            media.append(audio_part(sample_audio()))
        return question(preparation, "What is in the image?", *media, max_tokens=_MAX_TOKENS)
