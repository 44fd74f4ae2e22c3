"""Sounds of requests -> samples for the engine, and the prefix that names their language."""

import asyncio
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

from mm_runtime.engine.errors import RequestError
from mm_runtime.engine.listening import DEFAULT_LANGUAGE, Prefixes
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
    """

    prefixes: Prefixes
    most_samples: int
    executor: Executor

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
