"""Sounds of requests -> samples for the engine, and the prefix that names their language."""

import asyncio
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mm_runtime.engine.errors import RequestError
from mm_runtime.engine.listening import DEFAULT_LANGUAGE, START, Prefixes
from mm_runtime.gateway.errors import InvalidRequestError
from mm_runtime.gateway.recording import BadRecordingError
from mm_runtime.gateway.sound import Samples, decode_sound

__all__ = ["DEFAULT_LANGUAGE", "Listener"]


@dataclass(frozen=True, slots=True)
class Listener:
    """What a model that hears is asked with.

    Attributes:
        prefixes: what its decoder begins with.
        most_samples: what it hears at a time.
        executor: decodes; bounded, since a decoder takes memory.
        may_detect: the engine tells the logits of a token.
    """

    prefixes: Prefixes
    most_samples: int
    executor: Executor
    may_detect: bool

    @property
    def detects(self) -> bool:
        """Say whether a sound whose language nobody named is asked for it."""
        return self.may_detect and len(self.prefixes.languages) > 1

    @property
    def question(self) -> str:
        """The prefix whose next token is the language."""
        return START

    def detected(self, logits: NDArray[np.float32]) -> str:
        """Return the language that the engine's answer to the question names."""
        return self.prefixes.detected(logits)

    def prefix(self, language: str | None) -> tuple[str, int]:
        """Return the prefix of a language and its number of tokens.

        Raises:
            InvalidRequestError: the checkpoint does not know the language.
        """
        try:
            written = self.prefixes.write(language)
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
        decode = partial(decode_sound, encoded, most_samples=self.most_samples)
        try:
            return await asyncio.get_running_loop().run_in_executor(self.executor, decode)
        except BadRecordingError as error:
            raise InvalidRequestError(
                f"`file`: {error}.", param="file", code="invalid_audio"
            ) from error
