"""What is written to a connection in one turn of the event loop is one piece on its way."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
import uvloop

from mm_edge.connection import JoinedWrites

SECONDS = 60

LOOPS = pytest.mark.parametrize(
    "make", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["router's", "gateway's"]
)
Make = Callable[[], asyncio.AbstractEventLoop]
Use = Callable[[JoinedWrites], None]


class Noted:
    """A real transport whose writes are noted."""

    def __init__(self, transport: asyncio.Transport, writes: list[bytes]) -> None:
        self._transport = transport
        self._writes = writes

    def write(self, data: bytes) -> None:
        self._writes.append(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def read(make: Make, *uses: Use) -> tuple[bytes, list[bytes], list[str]]:
    """Connect, and use the server's side once a turn.

    Returns:
        What the client reads up to the end, what the socket's own transport was given, and what the
        loop reports as gone wrong.
    """
    writes: list[bytes] = []
    problems: list[str] = []

    async def serve_one() -> bytes:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: problems.append(str(context["message"])))
        used = asyncio.Event()
        held: list[JoinedWrites] = []

        class Server(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                noted = Noted(cast("asyncio.Transport", transport), writes)
                held.append(JoinedWrites(cast("asyncio.Transport", noted), loop))
                used.set()

        server = await loop.create_server(Server, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await used.wait()
        for use in uses:
            use(held[0])
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        got = await reader.read()
        writer.close()
        held[0].close()
        server.close()
        return got

    async def bounded() -> bytes:
        async with asyncio.timeout(SECONDS):
            return await serve_one()

    with asyncio.Runner(loop_factory=make) as runner:
        return runner.run(bounded()), writes, problems


def write(*parts: bytes) -> Use:

    def use(transport: JoinedWrites) -> None:
        for part in parts:
            transport.write(part)

    return use


def close(transport: JoinedWrites) -> None:
    transport.write(b"last")
    transport.close()


def end(transport: JoinedWrites) -> None:
    transport.write(b"last")
    transport.write_eof()


def abort(transport: JoinedWrites) -> None:
    transport.write(b"lost")
    transport.abort()


def write_to_closed(transport: JoinedWrites) -> None:
    transport.close()
    transport.write(b"late")


@LOOPS
def test_a_turn_is_one_piece(make: Make) -> None:
    got, writes, problems = read(
        make, write(b"head", b"", b"first"), write(b"second", b"end"), close
    )
    assert got == b"headfirstsecondendlast"
    assert writes == [b"headfirst", b"secondend", b"last"]
    assert problems == []


@LOOPS
@pytest.mark.parametrize(
    ("use", "expected"), [(close, b"last"), (end, b"last"), (abort, b""), (write_to_closed, b"")]
)
def test_its_end_comes_after_it(make: Make, use: Use, expected: bytes) -> None:
    """But for an end at once; what is written after the end is dropped in silence."""
    got, writes, problems = read(make, use)
    assert (got, b"".join(writes), problems) == (expected, expected, [])
