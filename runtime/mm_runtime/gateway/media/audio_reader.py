"""Audio of requests -> samples for the engine, and the prefix that names their language."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mm_runtime.gateway.errors import InvalidRequestError
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

__all__ = ["DEFAULT_LANGUAGE", "AudioReader"]


@dataclass(frozen=True, slots=True)
class AudioReader:
    """What requests to a model that takes audio are made of.

    Attributes:
        prefixes: what its decoder begins with.
        most_samples: what it takes at a time.
        decoders: few, since one takes memory.
        may_detect: the engine returns the logits of a token.
    """

    prefixes: Prefixes
    most_samples: int
    decoders: Decoders
    may_detect: bool

    @property
    def detects(self) -> bool:
        """Return whether the model detects the language of audio sent without one."""
        return self.may_detect and len(self.prefixes.languages) > 1

    @property
    def question(self) -> str:
        """The prefix whose next token is the language."""
        return START

    def detected(self, logits: NDArray[np.float32]) -> str:
        """Return the language that the engine's answer to the question names."""
        return self.prefixes.detected(logits)

    def prefix(self, language: str | None, task: str = TRANSCRIBE) -> tuple[str, int]:
        """Return the prefix of a language and a task, and its number of tokens.

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
            written = self.prefixes.write(language, task)
        except RequestError as error:
            raise InvalidRequestError(
                f"`language`: {error}.", param="language", code="unsupported_language"
            ) from None
        return written, len(self.prefixes.ids(written))

    async def read(self, encoded: bytes) -> Samples:
        """Return the samples of a file.

        Raises:
            InvalidRequestError: it is refused.
        """

        def decoded(run: Run) -> Samples:
            return run(audio_job(self.most_samples), encoded, AUDIO_SECONDS).array

        try:
            return await self.decoders.through(decoded)
        except (BadRecordingError, DecoderEndedError) as error:
            raise InvalidRequestError(
                f"`file`: {error}.", param="file", code="invalid_audio"
            ) from error
