"""Files of the configuration, which the kubelet replaces when their ConfigMap changes."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

_LOG = logging.getLogger(__name__)

_PERIOD_SECONDS = 2.0
"""Between two looks at the file; the kubelet takes up to a minute to change it."""

T = TypeVar("T")


class FollowedFile(Generic[T]):
    """Gives what a file says to `changed`, at once and whenever it says something else."""

    def __init__(
        self, path: Path, read: Callable[[bytes], T], changed: Callable[[T], None]
    ) -> None:
        self._path = path
        self._read = read
        self._changed = changed
        self._text: bytes | None = None

    def load(self) -> None:
        """Read the file.

        Raises:
            OSError: it cannot be read.
            ValueError: it is not what was expected.
        """
        text = self._path.read_bytes()
        if text != self._text:
            self._text = text
            self._changed(self._read(text))

    async def follow(self) -> None:
        """Read the file again and again; what cannot be read changes nothing."""
        problem = ""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            try:
                self.load()
                problem = ""
            except (OSError, ValueError) as error:
                if str(error) != problem:
                    problem = str(error)
                    _LOG.error("%s is not read, what it said before stays: %s", self._path, problem)
