"""A scripted engine with all that engines may say: scores, ids, windows of audio."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.scores import TokenScore
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from support.audio_gateways import FIRST_TIME, VOCABULARY

SCRIPTS: tuple[tuple[str, ...], ...] = (
    ("Yes.<tool_call>", '{"name": "rain", "arguments": {"a": 1}}', "</tool_call>"),
    ("a", " red", " square"),
    ("",),
    ("", "é", "", " 日本", " \0", "\n\n"),
    (
        *("<tool_call>\n", '{"name": "ra', 'in", "arg', 'uments": {}}\n</tool_', "call>"),
        *(" and ", "<tool_call>", '{"name": "b"}', "</tool_call>"),
    ),
    ("<tool_call>", '{"name": 1, "arguments": ', "[}</tool_call>", "<tool"),
    tuple(" word" for _ in range(40)),
)
"""Calls of tools that are complete, cut or none, texts, parts of characters, nothing."""

_FAR = -3.0
"""Logarithms of how likely tokens of no importance are, one a rank."""


@dataclass
class ScoringEngine:
    """Answers each choice with a script, a piece for each token: the same request with the same.

    Attributes:
        scripts: of which one is chosen by what a request says.
        running: requests that are being answered now.
    """

    scripts: Sequence[tuple[str, ...]] = SCRIPTS
    running: int = 0

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        """Answer from a script; never more tokens than were requested."""
        self.running += 1
        chosen = _chosen(request)
        try:
            await asyncio.sleep(0)
            pieces = self.scripts[chosen % len(self.scripts)][: request.max_tokens]
            timed = request.spectrogram is not None
            said = _timed(chosen)[: request.max_tokens] if timed else ()
            if timed:
                pieces = tuple(VOCABULARY[one] for one in said)
            if not pieces:
                yield Text("", 0)
            for number, piece in enumerate(pieces):
                await asyncio.sleep(0)
                score = () if request.likeliest is None else (_score(piece, request.likeliest),)
                yield Text(piece, 1, score, ids=said[number : number + 1], cached=0)
            cut = len(pieces) == request.max_tokens
            yield Ended(FinishReason.LENGTH if cut else FinishReason.STOP, len(pieces))
        finally:
            self.running -= 1

    async def first_logits(self, request: EngineRequest) -> NDArray[np.float32]:
        logits = np.zeros(len(VOCABULARY), dtype=np.float32)
        logits[_chosen(request) % len(VOCABULARY)] = 1
        return logits

    async def is_ready(self) -> bool:
        return True


def _chosen(request: EngineRequest) -> int:
    choice = request.request_id.partition("-")[2]
    said = (request.prompt, request.prompt_ids, request.max_tokens, request.sampling.temperature)
    return crc32(repr((said, choice)).encode())


def _timed(number: int) -> tuple[int, ...]:
    """Return the tokens of a window: with all its times, without the last, with none, nothing."""
    what, rain = VOCABULARY.index("what"), VOCABULARY.index("rain")
    begin, middle, end = FIRST_TIME, FIRST_TIME + 10, FIRST_TIME + 25
    answers = (
        (begin, what, middle, middle, rain, end),
        (begin, what, middle, middle, rain),
        (what, rain),
        (begin,),
        (),
    )
    return answers[number % len(answers)]


def _score(text: str, likeliest: int) -> TokenScore:
    others = tuple(
        TokenScore(f"{text}{place or ''}", text.encode(), _FAR * place)
        for place in range(likeliest)
    )
    return TokenScore(text, text.encode(), 0.0, others)
