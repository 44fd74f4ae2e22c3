"""Memory for media that are encoded and sent on: all at one time share one limit."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mm_edge.errors import InvalidRequestError

_MB = 1_000_000


class EncodingMemory:
    """Memory for files that are made and sent; who finds none waits in a row."""

    def __init__(self, most_bytes: int) -> None:
        self._most = self._left = most_bytes
        self._first = asyncio.Lock()
        self._freed = asyncio.Event()

    def check(self, count: int) -> None:
        """Refuse a file that never fits."""
        if count > self._most:
            raise InvalidRequestError(
                f"An image or video of the request takes {count // _MB} MB as a file for the "
                f"model's server; this gateway has {self._most // _MB} MB for that. Send fewer "
                "frames (`num_frames`) or a smaller one.",
                param="messages",
            )

    @asynccontextmanager
    async def of(self, count: int, encode: Callable[[], io.BytesIO]) -> AsyncIterator[io.BytesIO]:
        """Yield a file that a thread makes when there is memory for it, until the block ends."""
        async with self._first:
            while count > self._left:
                self._freed.clear()
                await self._freed.wait()
            self._left -= count
        making = asyncio.get_running_loop().run_in_executor(None, encode)
        try:
            yield await asyncio.shield(making)
        finally:
            if making.done():
                self._free(count)
            else:  # the client has gone, and a thread cannot be ended
                making.add_done_callback(lambda _: self._free(count))
            del making

    def _free(self, count: int) -> None:
        self._left += count
        self._freed.set()
