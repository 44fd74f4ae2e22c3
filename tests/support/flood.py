"""Many raw connections at one time, each with its own bytes; what they were answered is counted."""

import asyncio
import random
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

from support.raw_http import RawAnswer, say

Attack = Callable[[], Awaitable[RawAnswer]]


async def flood(attacks: Iterable[Attack], *, at_once: int) -> Counter[int]:
    """Make every attack, so many at one time; return how often each status was answered.

    Status 0: the connection was closed without an answer.
    """
    statuses: Counter[int] = Counter()
    left = iter(attacks)

    async def work() -> None:
        for attack in left:
            try:
                statuses[(await attack()).status] += 1
            except OSError:
                statuses[0] += 1

    async with asyncio.TaskGroup() as workers:
        for _ in range(at_once):
            workers.create_task(work())
    return statuses


def said(port: int, *parts: bytes, seconds: float = 60.0) -> Attack:
    return lambda: say(port, *parts, seconds=seconds)


def dripped(port: int, head: bytes, drop: bytes, *, seconds: float, pause: float = 0.5) -> Attack:
    """Return an attack that continues sending a little until it is answered or the time is up."""

    async def attack() -> RawAnswer:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        content = bytearray()
        try:
            writer.write(head)
            async with asyncio.timeout(seconds):
                answer = asyncio.create_task(reader.read())
                try:
                    while not answer.done():
                        writer.write(drop)
                        await asyncio.wait({answer}, timeout=pause)
                    content += answer.result()
                finally:
                    answer.cancel()
        except (TimeoutError, ConnectionError):
            pass
        finally:
            writer.close()
        return RawAnswer(bytes(content), closed=True)

    return attack


def unread(port: int, request: bytes, *, seconds: float) -> Attack:
    """Return an attack that sends a request again and again, and reads nothing.

    ConnectionError: the server closes the connection. AssertionError: it does not.
    """

    async def attack() -> RawAnswer:
        loop = asyncio.get_running_loop()
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.setblocking(False)  # noqa: FBT003 - its own form
            await loop.sock_connect(one, ("127.0.0.1", port))
            try:
                async with asyncio.timeout(seconds):
                    while True:
                        await loop.sock_sendall(one, request)
            except TimeoutError:
                message = "the server has not closed the connection"
                raise AssertionError(message) from None

    return attack


def abandoned(port: int, request: bytes, chance: random.Random) -> Attack:
    """Return an attack that queries and leaves within a moment, before or in the answer."""
    seconds = chance.uniform(0, 0.1)
    return lambda: say(port, request, seconds=seconds)
