"""What a unit of work costs a replica, measured once, while no client's request is inside.

A replica's second is spent on requests as such, on prompt tokens of images and of text, and on
generated tokens. Four kinds of requests that differ in one of them each give the four costs; the
autoscaler multiplies them with what arrives. Nothing here is counted as traffic or as load, and a
client that comes ends it until it is quiet again.
"""

import asyncio
import logging
import random
import time
from collections import defaultdict
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from uuid import uuid4

import numpy as np
from PIL import Image

from mm_runtime.gateway.admission.fair_queue import UNCOUNTED
from mm_runtime.gateway.dataplane import ChatService, Finished
from mm_runtime.gateway.metrics import GatewayMetrics
from mm_runtime.gateway.preparation import AnyRequest
from mm_runtime.gateway.warmup.costs import Costs, Timed, costs_of
from mm_runtime.gateway.warmup.own_requests import image_part, question, transcription
from mm_runtime.gateway.warmup.quiet import Quiet
from mm_runtime.serving.preprocess.audio.tones import tone

_log = logging.getLogger(__name__)

_TIMEOUT_SECONDS: Final = 30.0
"""For all of it but the waits for quiet and what clients ended. Rounds that were complete by then
count if they are enough; else the replica serves without costs, and demand is the costs known
before or slots taken."""
_ROUNDS: Final = 5
"""Two of them may be outliers: the first one, which warms kernels up, and a moment of a busy node.
"""
_FEWEST_ROUNDS: Final = 3
"""One of them may be an outlier."""
_ENOUGH_SECONDS: Final = 1.0
"""After so long no round begins beyond the fewest: clients may come at any time, and the first of
them waits for what the engine has begun."""
_PREFILL_AT_ONCE: Final = 16
"""Prompts fill a device by themselves: more of them at a time only take longer. Generating does
not, so its probe takes the full batch."""
_MOST_WORDS: Final = 256
_MOST_OUTPUT: Final = 32
_IMAGE_SIDE: Final = 336
_HERTZ: Final = (200.0, 2000.0)
_WORDS: Final = ("what", "color", "is", "the", "shape", "in", "red", "blue", "a", "small")


@dataclass(frozen=True, slots=True)
class Probe:
    """One kind of request."""

    words: int
    images: int
    max_tokens: int
    at_once: int


class WorkBenchmark:
    """Measures the costs of one replica and puts them into its metrics."""

    def __init__(
        self, service: ChatService, metrics: GatewayMetrics, *, slots: int, quiet: Quiet
    ) -> None:
        self._service = service
        self._metrics = metrics
        self._slots = slots
        self._quiet = quiet
        self._spent = 0.0
        # The same questions at each start; no two alike, or a cache would answer the second.
        self._random = random.Random(1)  # noqa: S311  # load, not secrets

    async def run(self) -> None:
        """Measure; a replica that cannot be measured is logged and serves all the same."""
        try:
            costs = await self._measured()
        except Exception as error:  # noqa: BLE001 - costs are a help; without them the pod serves
            _log.warning("what work costs was not measured, slots are counted instead: %s", error)
            return
        for unit, seconds in costs.seconds.items():
            self._metrics.set_work_seconds(unit, seconds)
        for unit, why in costs.refused.items():
            # Zero is no cost: the autoscaler goes by another pod's, or by the one before.
            self._metrics.set_work_seconds(unit, 0.0)
            _log.warning("what %s costs was measured and is not believed: %s", unit, why)
        costs_text = ", ".join(
            f"{unit} {value * 1000:.3g} ms" for unit, value in costs.seconds.items()
        )
        _log.info("work was measured in %.1f s: %s", self._spent, costs_text or "nothing")

    async def _measured(self) -> Costs:
        rounds: list[dict[str, Timed]] = []
        try:
            while len(rounds) < _ROUNDS:
                late = self._spent > _ENOUGH_SECONDS
                if late and len(rounds) >= _FEWEST_ROUNDS:
                    break
                rounds.append(await self._round())
        except TimeoutError as error:
            if len(rounds) < _FEWEST_ROUNDS:
                raise TimeoutError(
                    f"{len(rounds)} of {_FEWEST_ROUNDS} rounds were done after "
                    f"{_TIMEOUT_SECONDS:.0f} s"
                ) from error
        timed: dict[str, list[Timed]] = defaultdict(list)
        for one in rounds:
            for name, value in one.items():
                timed[name].append(value)
        return costs_of(timed)

    async def _round(self) -> dict[str, Timed]:
        probes = probes_of(
            slots=self._slots,
            max_input_len=self._service.preparation.model.limits.max_input_len,
            max_seq_len=self._service.preparation.model.limits.max_seq_len,
            images=self._service.preparation.model.max_images > 0,
        )
        return {
            name: await self._quiet.run(partial(self._time, probe))
            for name, probe in probes.items()
        }

    async def _time(self, probe: Probe) -> Timed:
        # Images are written in a thread: clients have the loop.
        questions = await asyncio.to_thread(self._questions, probe)
        began = time.monotonic()
        answers = [asyncio.ensure_future(self._answered(one)) for one in questions]
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS - self._spent):
                contents = await asyncio.gather(*answers)
        finally:
            for one in answers:
                one.cancel()
        took = time.monotonic() - began
        self._spent += took
        return Timed(
            took / probe.at_once,
            *[sum(column) / len(contents) for column in zip(*contents, strict=True)],
        )

    async def _answered(self, question: AnyRequest) -> tuple[int, int, int]:
        output = 0
        request = await self._service.preparation.prepare(question)
        request = request.with_each(lambda chat: replace(chat, ticket=UNCOUNTED))
        answer = self._service.answer(request, request_id=f"work-{uuid4().hex}")
        async with aclosing(answer) as events:
            async for event in events:
                if isinstance(event, Finished):
                    output = event.completion_tokens
        return request.features, request.text_tokens, output

    def _questions(self, probe: Probe) -> list[AnyRequest]:
        return [self._question(probe) for _ in range(probe.at_once)]

    def _question(self, probe: Probe) -> AnyRequest:
        preparation, most = self._service.preparation, probe.max_tokens
        if preparation.accepts_audio:  # the encoder pads each recording to its full window
            samples = tone(self._random.uniform(*_HERTZ))
            return transcription(preparation, samples, max_tokens=most)
        text = " ".join(self._random.choices(_WORDS, k=probe.words))
        images = [image_part(_image(self._random.getrandbits(32))) for _ in range(probe.images)]
        return question(preparation, text, *images, max_tokens=most)


def probes_of(
    *, slots: int, max_input_len: int, max_seq_len: int, images: bool
) -> dict[str, Probe]:
    """Return the probes: each but the first has more of one kind of work."""
    few = min(slots, _PREFILL_AT_ONCE)
    short = len(_WORDS)
    words = max(short, min(_MOST_WORDS, max_input_len // 4))
    output = max(1, min(_MOST_OUTPUT, max_seq_len // 4))
    probes = {
        "request": Probe(short, 0, 1, few),
        "text_token": Probe(words, 0, 1, few),
        "output_token": Probe(short, 0, output, slots),
    }
    return probes | ({"image_token": Probe(short, 1, 1, few)} if images else {})


def _image(seed: int) -> Image.Image:
    # No two alike, small to send.
    blocks = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    side = (_IMAGE_SIDE, _IMAGE_SIDE)
    return Image.fromarray(blocks).resize(side, Image.Resampling.NEAREST)
