"""Audio of requests -> samples for the engine, and the prefix that names their language."""

import asyncio
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mm_edge.errors import InvalidRequestError
from mm_runtime.gateway.media.audio import Samples
from mm_runtime.gateway.media.container import BadRecordingError
from mm_runtime.gateway.media.decoding.jobs import AUDIO_SECONDS, audio_job
from mm_runtime.gateway.media.decoding.pool import Decoders, Run
from mm_runtime.gateway.media.decoding.process import DecoderEndedError
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.audio.prefixes import (
    DEFAULT_LANGUAGE,
    START,
    TRANSCRIBE,
    Prefixes,
)
from mm_runtime.serving.preprocess.audio.samples import SAMPLE_RATE
from mm_runtime.serving.preprocess.audio.spectrogram import LogMel

__all__ = ["DEFAULT_LANGUAGE", "AudioReader"]


LONGEST_SECONDS = 600
"""Length of audio that is read window by window: 38 MB of samples, 19 MB of spectrogram."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Audio that is read window by window.

    `frames`: float32 [frames, bins] of all of it, at least one window; `total`: those with audio.
    `most_tokens`: of the answer to one window; `most_in_all`: of all together, those included that
    a later window repeats; None: as many as it takes. `scored`: with how likely nothing is said.
    """

    frames: NDArray[np.float32]
    total: int
    spectrogram: LogMel
    prefixes: Prefixes
    most_tokens: int
    most_in_all: int | None
    scored: bool = False

    def cut(self, start: int) -> NDArray[np.float32]:
        """Return the window [frames, bins] that begins at a frame."""
        return self.spectrogram.cut(self.frames, start)

    @property
    def count(self) -> int:
        """Windows that follow each other without overlap: there are as many at the least."""
        return -(-len(self.frames) // self.spectrogram.frames)


@dataclass(frozen=True, slots=True)
class AudioReader:
    """What requests to a model that takes audio are made of.

    `may_detect`: the engine returns the logits of a token. `may_time`: it keeps the rules of time
    stamps. `is_cut_there`: it cuts longer audio itself.
    """

    prefixes: Prefixes
    spectrogram: LogMel
    decoders: Decoders
    may_detect: bool
    may_time: bool
    is_cut_there: bool

    @property
    def times(self) -> bool:
        """Return whether answers can have time stamps, which longer audio needs."""
        return self.may_time and self.prefixes.first_time is not None

    @property
    def detects(self) -> bool:
        return self.may_detect and len(self.prefixes.languages) > 1

    @property
    def question(self) -> str:
        """The prefix whose next token is the language."""
        return START

    def detected(self, logits: NDArray[np.float32]) -> str:
        """Return the language that the engine's answer to the question names."""
        return self.prefixes.detected(logits)

    def prefix(
        self, language: str | None, task: str = TRANSCRIBE, *, timed: bool = False
    ) -> tuple[str, int]:
        """Return the prefix of a task and a language, None: the default, and its number of tokens.

        Raises:
            InvalidRequestError: the checkpoint does not know the language, or does not translate.
        """
        if not self.prefixes.knows(task):
            raise InvalidRequestError(
                "This model was trained to write down what is said, not to translate it. POST "
                "/v1/audio/transcriptions, or have a multilingual checkpoint served.",
                code="unsupported_endpoint",
            )
        try:
            written = self.prefixes.write(language, task, timed=timed)
        except RequestError as error:
            raise InvalidRequestError(
                f"`language`: {error}.", param="language", code="unsupported_language"
            ) from None
        return written, len(self.prefixes.ids(written))

    async def windows(
        self, samples: Samples, *, most_tokens: int, in_all: int | None, scored: bool
    ) -> Windows:
        """Return audio as it is read window by window; limits: see `Windows`."""
        mel = self.spectrogram
        # As in transformers: silence follows what is shorter, zeros the rest of what is longer.
        one = len(samples) <= mel.samples
        frames = await asyncio.to_thread(mel if one else mel.of_length, samples)
        total = max(1, len(samples) // mel.hop)
        scored = scored and self.may_detect
        return Windows(frames, total, mel, self.prefixes, most_tokens, in_all, scored)

    async def read(self, encoded: bytes) -> Samples:
        """Return the samples of a file; InvalidRequestError: it is refused."""
        most = self.spectrogram.samples
        if self.times or self.is_cut_there:
            most = max(most, LONGEST_SECONDS * SAMPLE_RATE)

        async def decoded(run: Run) -> Samples:
            return (await run(audio_job(most), encoded, AUDIO_SECONDS)).array

        try:
            return await self.decoders.through(decoded)
        except (BadRecordingError, DecoderEndedError) as error:
            raise InvalidRequestError(
                f"`file`: {error}.", param="file", code="invalid_audio"
            ) from error
