"""Connections that send no request end by themselves, and never keep others out."""

import asyncio
import resource
import socket
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from mm_edge import connection
from mm_edge.connection import ConnectionLimits, IdleConnections
from support.eventually import eventually_async
from support.flood import unread
from support.gateways import MODEL, Running, serve, toy_gateway
from support.raw_http import say
from support.scripted_engine import ScriptedEngine

QUESTION = {"model": MODEL, "messages": [{"role": "user", "content": "what is it ?"}]}
PAGES = ["/openapi.json", "/metrics"]
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


def _open(running: Running) -> int:
    return len(running.server.server_state.connections)


async def test_half_a_head_has_a_deadline(tmp_path: Path) -> None:
    """Then it is answered 408 and closed; bytes that drip in do not extend it."""
    limits = ConnectionLimits(head_seconds=0.2)
    async with serve(toy_gateway(tmp_path, ScriptedEngine()), limits) as running:
        answer = await say(running.port, b"GET /healthz HTTP/1.1\r\nx: ")
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        ended = asyncio.create_task(reader.read())
        while not ended.done():
            writer.write(b"a")
            await asyncio.sleep(0.02)
        writer.close()
        await eventually_async(lambda: _open(running) == 0)
    assert (answer.status, answer.closed) == (408, True)
    assert answer.error["message"].endswith("not complete within 0.2 seconds.")
    assert (await ended).startswith(b"HTTP/1.1 408 ")


async def test_half_a_head_after_a_request_has_one_too(tmp_path: Path) -> None:
    """A connection that was good once may not stop in the middle of its next request."""
    limits = ConnectionLimits(head_seconds=0.2)
    async with serve(toy_gateway(tmp_path, ScriptedEngine()), limits) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(HEALTH)
        await reader.readuntil(b"alive")
        writer.write(b"GET /hea")
        rest = await reader.read()
        writer.close()
    assert b"HTTP/1.1 408 " in rest


async def test_a_body_behind_its_answer_has_one_too(tmp_path: Path) -> None:
    limits = ConnectionLimits(head_seconds=0.2)
    async with serve(toy_gateway(tmp_path, ScriptedEngine()), limits) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        await reader.readuntil(b"alive")
        ended = asyncio.create_task(reader.read())
        while not ended.done():
            writer.write(b"64\r\n" + b"x" * 100 + b"\r\n")
            await asyncio.sleep(0.02)
        writer.close()
        await eventually_async(lambda: _open(running) == 0)
    await asyncio.gather(ended, return_exceptions=True)


async def test_idle_connections_make_room(tmp_path: Path) -> None:
    """Ten that say nothing where four may be: a question is answered, and six of them are gone."""
    limits = ConnectionLimits(most=4, kept_seconds=0)
    async with serve(toy_gateway(tmp_path, ScriptedEngine()), limits) as running:
        silent = [await asyncio.open_connection("127.0.0.1", running.port) for _ in range(10)]
        await eventually_async(lambda: _open(running) == 4)
        async with httpx.AsyncClient(base_url=running.url, timeout=60) as client:
            answer = await client.post("/v1/chat/completions", json=QUESTION)
            # Connections that requested something stay before those that never did.
            more = [await asyncio.open_connection("127.0.0.1", running.port) for _ in range(4)]
            again = await client.post("/v1/chat/completions", json=QUESTION)
        for _, writer in (*silent, *more):
            writer.close()
    assert (answer.status_code, again.status_code) == (200, 200)


@pytest.mark.parametrize(("most", "files"), [(2, resource.RLIM_INFINITY), (1024, 5)])
async def test_where_all_are_answered_a_new_one_gets_503(
    most: int, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Retry-After, also where files are few; those that are being answered are answered."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    gate = asyncio.Event()
    gateway = toy_gateway(tmp_path, ScriptedEngine(gate=gate), max_concurrency=2)
    async with (
        serve(gateway, ConnectionLimits(most=most)) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):
        requested = [
            asyncio.create_task(client.post("/v1/chat/completions", json=QUESTION))
            for _ in range(2)
        ]
        await eventually_async(lambda: gateway.admission.load.running == 2)
        refused = await say(running.port, HEALTH)
        gate.set()
        answers = await asyncio.gather(*requested)
    assert (refused.status, refused.closed) == (503, True)
    assert b"retry-after: 1\r\n" in refused.content
    assert refused.error["code"] == "rate_limit_exceeded"
    assert [answer.status_code for answer in answers] == [200, 200]


async def test_requests_on_their_way_are_not_lost(tmp_path: Path) -> None:
    """A crowd whose requests came with its connections: each is answered, or refused with 503."""
    loop, limits = asyncio.get_running_loop(), ConnectionLimits(most=4, kept_seconds=60)
    async with serve(toy_gateway(tmp_path, ScriptedEngine()), limits) as running:
        crowd = [socket.create_connection(("127.0.0.1", running.port), 60) for _ in range(20)]
        for one in crowd:
            one.sendall(HEALTH)
            one.settimeout(0)
        answers = [await loop.sock_recv(one, 12) for one in crowd]
        for one in crowd:
            one.close()
    assert sorted(answers) == [b"HTTP/1.1 200"] * 4 + [b"HTTP/1.1 503"] * 16


@pytest.mark.parametrize("page", PAGES)
async def test_a_client_that_reads_nothing_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    """Whatever it requests: its connection and what is written to it are free again."""
    monkeypatch.setattr(connection, "_UNREAD_SECONDS", 0.5)
    get = f"GET {page} HTTP/1.1\r\nhost: x\r\n\r\n".encode()
    async with serve(toy_gateway(tmp_path, ScriptedEngine())) as running:
        with pytest.raises(ConnectionError):
            await unread(running.port, get, seconds=60)()
        await eventually_async(lambda: _open(running) == 0)


async def test_a_client_that_reads_slowly_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets all of more answers than the buffers between take."""
    monkeypatch.setattr(connection, "_UNREAD_SECONDS", 0.5)
    get, count, content = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n", 200, b""
    async with serve(toy_gateway(tmp_path, ScriptedEngine())) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(get * (count - 1) + get.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        while piece := await reader.read(1 << 16):
            content += piece
            await asyncio.sleep(0.002)
        writer.close()
    assert content.count(b"HTTP/1.1 200") == count


CROWD = 300


@dataclass(eq=False)
class Connection:
    """Counts looks at it."""

    busy: bool = False
    looks: int = 0

    @property
    def idle(self) -> bool:
        self.looks += 1
        return not self.busy


def test_those_without_a_request_make_room_first() -> None:
    """Then the ones whose last answer is longest ago; busy ones never."""
    first, second, third, busy = (Connection() for _ in range(4))
    connections: IdleConnections[Connection] = IdleConnections()
    for one in (first, second, third, busy):
        connections.begun(one, 1)
    connections.answered(second, 2)
    connections.answered(first, 2)
    busy.busy = True
    assert connections.take(0.5) is None  # none was idle by then
    taken = [connections.take(until) for until in (1, 1, 2, 2, 2)]
    assert taken == [third, None, second, first, None]


def test_one_that_was_busy_comes_back_with_its_answer() -> None:
    """It was passed over meanwhile; one that has gone leaves no place to another."""
    one = Connection(busy=True)
    connections: IdleConnections[Connection] = IdleConnections()
    connections.begun(one, 1)
    assert connections.take(2) is None
    one.busy = False
    connections.answered(one, 2)
    assert connections.take(2) is one
    for gone in (one, Connection()):
        connections.begun(gone, 3)
        connections.ended(gone)
    assert connections.take(4) is None


def test_room_is_made_without_a_look_at_all() -> None:
    """A busy one is looked at once, however many need room after it."""
    connections: IdleConnections[Connection] = IdleConnections()
    everyone = [Connection(busy=number % 2 == 0) for number in range(1000)]
    for one in everyone:
        connections.begun(one, 1)
    assert all(connections.take(2) for _ in range(500))
    assert max(one.looks for one in everyone) == 1


async def test_a_crowd_comes_in_groups(tmp_path: Path) -> None:
    """All get in although no one takes them at first, and no turn of the loop takes them all."""
    async with serve(toy_gateway(tmp_path, ScriptedEngine())) as running:
        crowd = [socket.create_connection(("127.0.0.1", running.port), 60) for _ in range(CROWD)]
        connections = running.server.server_state.connections
        counts = [0]
        async with asyncio.timeout(60):
            while counts[-1] < CROWD:
                await asyncio.sleep(0)
                counts.append(len(connections))
        for one in crowd:
            one.close()
    assert max(after - before for before, after in pairwise(counts)) <= 32
