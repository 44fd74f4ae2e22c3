"""A connection's transport that sends what one turn of the event loop writes as one piece.

uvicorn writes the head of an answer, each part of its body and its end by themselves. Each write is
a call into the kernel, which on the way delivers the bytes and wakes their reader: of an answer of
eight events two in ten, and the first token came after a head that was of no use without it.
"""

import asyncio
from typing import Any


class JoinedWrites(asyncio.Transport):
    """Another transport, to which bytes go before the loop waits again.

    That one's flow control counts them from then on: what is written in one turn has no bound of
    its own.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes | bytearray | memoryview] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes with those of the same turn."""
        if not data:
            return
        if not self._waiting:
            self._loop.call_soon(self._send)
        self._waiting.append(data)

    def close(self) -> None:
        self._send()
        self._transport.close()

    def abort(self) -> None:
        self._waiting.clear()
        self._transport.abort()

    def can_write_eof(self) -> bool:
        return self._transport.can_write_eof()

    def write_eof(self) -> None:
        self._send()
        self._transport.write_eof()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        # A client that left has closed it: uvloop's transport refuses to write then.
        if waiting and not self._transport.is_closing():
            self._transport.write(b"".join(waiting))
