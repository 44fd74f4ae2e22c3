"""The file of splits, which the kubelet replaces when its ConfigMap changes."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from mm_router.splits import Split, SplitError, read_splits

_LOG = logging.getLogger(__name__)

_PERIOD_SECONDS = 2.0
"""Between two looks at the file; the kubelet takes up to a minute to change it."""


class SplitFile:
    """Gives the splits of a file to `changed`, at once and whenever others are there."""

    def __init__(self, path: Path, changed: Callable[[tuple[Split, ...]], None]) -> None:
        self._path = path
        self._changed = changed
        self._text = b""

    def load(self) -> None:
        """Read the file.

        Raises:
            OSError: it cannot be read.
            SplitError: it holds no splits.
        """
        text = self._path.read_bytes()
        if text != self._text:
            self._text = text
            self._changed(read_splits(text))

    async def follow(self) -> None:
        """Read the file again and again; what cannot be read leaves the splits as they are."""
        problem = ""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            try:
                self.load()
                problem = ""
            except (OSError, SplitError) as error:
                if str(error) != problem:
                    problem = str(error)
                    _LOG.error("the splits stay as they are: %s: %s", self._path, problem)
