"""Whatever a Prometheus answers: it neither stalls nor fills the operator."""

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from mm_operator.scaling.answers import MetricsError, read_vector
from mm_operator.scaling.prometheus import PODS_OF_A_QUERY, Endpoint, Prometheus, most_bytes, trust
from mm_operator.scaling.reader import read_all
from support.http_servers import dripping

Speaks = Callable[[asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
BEGUN = b'{"status":"success","data":{"resultType":"vector","result":['
NOTHING = BEGUN + b"]}}"
NESTED = BEGUN + b"[" * 60_000 + b"]" * 60_000 + b"]}}"
PACKED = gzip.compress(BEGUN + b" " * (8 << 20) + b"]}}")


class Server:
    """A server that answers every request alike, and counts."""

    def __init__(self, speak: Speaks) -> None:
        self.requested = 0
        self.address = ""
        self._speak = speak
        self._speakers: set[asyncio.Task[None]] = set()

    def begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._speakers.add(asyncio.create_task(self._answer(reader, writer)))

    async def end(self) -> None:
        for speaker in self._speakers:
            speaker.cancel()
        await asyncio.gather(*self._speakers, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
                    await reader.readexactly(int(length))
                    self.requested += 1
                    await self._speak(writer)
                    await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def serving(speak: Speaks) -> AsyncIterator[Server]:
    server = Server(speak)
    async with await asyncio.start_server(server.begin, "127.0.0.1", 0) as listening:
        server.address = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        try:
            yield server
        finally:
            await server.end()


@asynccontextmanager
async def client_of(address: str, seconds: float = 60.0) -> AsyncIterator[Prometheus]:
    endpoint = Endpoint((address,))
    client = Prometheus(endpoint, trust(endpoint), seconds)
    try:
        yield client
    finally:
        await client.close()


def complete(body: bytes, *headers: bytes) -> Speaks:

    async def speak(writer: asyncio.StreamWriter) -> None:
        lines = b"".join(header + b"\r\n" for header in headers)
        writer.write(HEAD + lines + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    return speak


async def flood(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % (63 << 20) + BEGUN)
    for _ in range(63 * 16):
        writer.write(b"[]," * 21845)
        await writer.drain()


drip_headers = dripping(HEAD, b"X-Drip: 1\r\n")
drip_body = dripping(HEAD + b"Content-Length: 60000\r\n\r\n" + BEGUN, b" ")


async def too_short(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Content-Length: 60000\r\n\r\n" + NOTHING)
    await writer.drain()
    writer.close()


BAD = [
    pytest.param(flood, id="63-MiB-of-lists"),
    pytest.param(complete(NESTED), id="nested"),
    pytest.param(complete(b"\r\n" * 30_000), id="blanks"),
    pytest.param(complete(PACKED, b"Content-Encoding: gzip"), id="compressed"),
    pytest.param(complete(BEGUN + b"1" * 50_000 + b"]}}"), id="a-number-of-50,000-digits"),
    pytest.param(too_short, id="wrong-length"),
    pytest.param(drip_headers, id="headers-drip"),
    pytest.param(drip_body, id="body-drips"),
]


def seconds_for(speak: Speaks) -> float:
    """Return a time-out: short for answers that never end, for only it ends them."""
    return 1.0 if speak in (drip_headers, drip_body) else 60.0


@pytest.mark.parametrize("speak", BAD)
async def test_no_answer_costs_more_than_was_requested(speak: Speaks) -> None:
    """Whatever comes, and however slowly: one sentence, after a bounded time and bounded memory."""
    async with (
        serving(speak) as server,
        client_of(server.address, seconds=seconds_for(speak)) as client,
    ):
        tracemalloc.start()
        try:
            with pytest.raises(MetricsError):
                await client.query("up", pods=1)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert peak < 8 << 20, f"{peak >> 10} KiB at most at a time"


async def test_many_pods_are_requested_in_parts() -> None:
    """However many pods there are, no answer is longer than what is parsed in milliseconds."""
    async with serving(complete(NOTHING)) as server, client_of(server.address) as client:
        await read_all(client, [("demo", f"pod-{number}") for number in range(250)], [])

    assert server.requested == 3
    assert most_bytes(PODS_OF_A_QUERY) < 1 << 20


async def test_the_bound_has_room_for_a_real_answer() -> None:
    """A hundred pods with the longest names of a Deployment's, with all parts of the query."""
    labels = ",".join(
        f'"{name}":"{value}"'
        for name, value in (
            ("mm_part", "prompt_tokens_newest"),
            ("namespace", "n" * 63),
            ("pod", "p" * 63),
        )
    )
    sample = f'{{"metric":{{{labels}}},"value":[1700000000.123,"0.12345678901234567"]}}'
    body = BEGUN + ",".join([sample] * 24 * PODS_OF_A_QUERY).encode() + b"]}}"
    async with serving(complete(body)) as server, client_of(server.address) as client:
        found = read_vector(await client.query("up", pods=PODS_OF_A_QUERY))

    assert len(found) == 24 * PODS_OF_A_QUERY
