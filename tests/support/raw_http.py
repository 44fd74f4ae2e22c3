"""Bytes to an HTTP server and what it answers, without a client that would repair them."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

SECONDS = 60.0


@dataclass(frozen=True)
class RawAnswer:
    """What came until the server closed the connection, or until the client left.

    Attributes:
        closed: the server has ended the connection.
    """

    content: bytes
    closed: bool

    @property
    def status(self) -> int:
        return int(self.content.split(b" ", 2)[1]) if self.content else 0

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = json.loads(self.content.partition(b"\r\n\r\n")[2])["error"]
        return error


async def say(port: int, *parts: bytes, seconds: float = SECONDS) -> RawAnswer:
    """Send bytes and read until the server closes, at most so long."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    content = bytearray()
    closed = False
    try:
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
        except ConnectionError:
            closed = True
        try:
            async with asyncio.timeout(seconds):
                while chunk := await reader.read(65_536):
                    content += chunk
            closed = True
        except TimeoutError:
            pass
        except ConnectionError:
            closed = True
    finally:
        writer.close()
    return RawAnswer(bytes(content), closed)
