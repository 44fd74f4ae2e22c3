"""Audio that is read window by window: where the next one begins is read from time stamps.

As transformers' `generate` does it without a fall-back to higher temperatures: each window is read
once, with the same prefix.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.scores import TokenScore, mean_log_prob
from mm_runtime.gateway.api.segments import Segment, parts_of
from mm_runtime.gateway.backends.engine import (
    Ended,
    Engine,
    EngineRequest,
    Form,
    Scorer,
    first_token,
)
from mm_runtime.gateway.backends.token_text import TokenText
from mm_runtime.gateway.errors import EngineFailedError
from mm_runtime.gateway.media.audio_reader import Windows
from mm_runtime.serving.generate.request import GuideKind
from mm_runtime.serving.preprocess.audio.prefixes import START


@dataclass(frozen=True, slots=True)
class WindowText:
    """What one window added to the text of all; `reason` is set on the last one."""

    text: str
    tokens: int
    segments: tuple[Segment, ...]
    reason: FinishReason | None


async def transcribed(
    engine: Engine, request: EngineRequest, windows: Windows
) -> AsyncGenerator[WindowText, None]:
    """Read all windows, one after the other; the request's prompt is the prefix of each."""
    prefixes, total = windows.prefixes, windows.total
    first_time = prefixes.first_time
    assert first_time is not None  # noqa: S101  # else there are no windows
    rules = json.dumps({"first_time": first_time, "latest_start": prefixes.latest_start})
    request = replace(request, form=Form(GuideKind.TIMESTAMPS, rules))
    text, left, seek = TokenText(prefixes.codec.decode), windows.most_in_all, 0
    while seek < total:
        most = windows.most_tokens if left is None else min(left, windows.most_tokens)
        ids, scores = await _answer(
            engine, replace(request, spectrogram=windows.cut(seek), max_tokens=most)
        )
        frames = min(windows.spectrogram.frames, total - seek)
        parts, done = parts_of(ids, first_time=first_time, seek=seek, frames=frames)
        spoken = [[one for one in part.tokens if one < first_time] for part in parts]
        mean, no_speech = mean_log_prob(scores), await _no_speech(engine, request, windows, seek)
        segments = tuple(
            Segment(
                part,
                prefixes.codec.decode(said),
                seek,
                request.sampling.temperature,
                mean,
                no_speech,
            )
            for part, said in zip(parts, spoken, strict=True)
        )
        seek += done
        left = None if left is None else left - len(ids)
        reason = FinishReason.STOP if seek >= total else FinishReason.LENGTH if left == 0 else None
        added = text.push([one for part in spoken for one in part])
        held = text.end() if reason is not None else ""
        yield WindowText(added + held, len(ids), segments, reason)
        if reason is not None:
            return


async def _no_speech(
    engine: Engine, request: EngineRequest, windows: Windows, seek: int
) -> float | None:
    """Return how likely it is that nothing is said in a window; it takes a token of its own."""
    if not windows.scored or not isinstance(engine, Scorer):
        return None
    question = first_token(request, START)
    return windows.prefixes.no_speech(
        await engine.first_logits(replace(question, spectrogram=windows.cut(seek)))
    )


async def _answer(
    engine: Engine, request: EngineRequest
) -> tuple[tuple[int, ...], tuple[TokenScore, ...]]:
    """Return the tokens of a window and their scores, where those are wanted."""
    ids: list[int] = []
    scores: list[TokenScore] = []
    async with aclosing(engine.generate(request)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Ended):
                return tuple(ids), tuple(scores)
            ids += piece.ids
            scores += piece.scores
    raise EngineFailedError("The model returned no output.", code="engine_error")
