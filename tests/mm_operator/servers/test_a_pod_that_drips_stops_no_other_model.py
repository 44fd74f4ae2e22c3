"""Pods are a tenant's: what one of them answers, and how slowly, is its own matter."""

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mm_api import labels
from mm_api.documents.server_state import PoolState, ServerState
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache
from mm_operator.cluster.resources import POD
from mm_operator.servers import rounds
from mm_operator.servers.rounds import Servers
from support.eventually import eventually_async
from support.http_servers import dripping
from support.model_documents import document
from support.turns import counted_turns

WELL, BAD = Key("well", "llava"), Key("bad", "llava")
HERE, THERE = "127.0.0.1", "127.0.0.2"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
TROUBLED = ServerState(pools=[PoolState(pool="cuda", planned_bytes=1, full=2)]).to_json().encode()
PACKED = gzip.compress(b" " * (8 << 20))
Speaks = Callable[[asyncio.StreamWriter], Any]


async def in_trouble(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(TROUBLED) + TROUBLED[:40])
    await writer.drain()
    await asyncio.sleep(0.05)
    writer.write(TROUBLED[40:])
    await writer.drain()


drip_headers = dripping(HEAD, b"X-Drip: 1\r\n")
drip_body = dripping(HEAD + b"Content-Length: 60000\r\n\r\n", b" ")


async def pour(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"\r\n")
    while True:
        writer.write(b" " * 65536)
        await writer.drain()


async def unpack_me(writer: asyncio.StreamWriter) -> None:
    head = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(PACKED)
    writer.write(HEAD + head + PACKED)
    await writer.drain()


@asynccontextmanager
async def speaking(addresses: dict[str, Speaks]) -> AsyncIterator[int]:
    speakers: set[asyncio.Task[Any]] = set()

    def answers(speak: Speaks) -> Any:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                try:
                    await reader.readuntil(b"\r\n\r\n")
                    await speak(writer)
                finally:
                    writer.close()

        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            speakers.add(asyncio.create_task(answer(reader, writer)))

        return begin

    async with contextlib.AsyncExitStack() as stack:
        port = 0
        for address, speak in addresses.items():
            server = await asyncio.start_server(answers(speak), address, port)
            port = server.sockets[0].getsockname()[1]
            stack.callback(server.close)
        yield port
        for speaker in speakers:
            speaker.cancel()
        await asyncio.wait(speakers)


def servers_of(port: int, pods: dict[Key, list[str]], woken: list[Key]) -> Servers:
    models, cache = ModelCache(), Cache()
    for number, (key, addresses) in enumerate(pods.items(), 1):
        more = {"uid": f"uid-{number}", "generation": 1, "resourceVersion": str(number)}
        named = {"name": key.name, "namespace": key.namespace}
        made = {"creationTimestamp": "2026-01-02T03:04:05Z"}
        models.put({**document({}, key.name), "metadata": {**named, **more, **made}})
        for place, address in enumerate(addresses):
            metadata = {
                "name": f"pod-{place}",
                "namespace": key.namespace,
                "uid": f"uid-of-{key}-{place}",
                "resourceVersion": str(1000 * number + place),
                "labels": {labels.MODEL: key.name, labels.APP_COMPONENT: "server"},
            }
            cache.put(
                POD.kind, {"metadata": metadata, "status": {"phase": "Running", "podIP": address}}
            )
    return Servers(models=models, cache=cache, wake=woken.append, interval_seconds=1, port=port)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(drip_headers, id="headers-drip", marks=pytest.mark.slow),
        pytest.param(drip_body, id="body-drips"),
        pytest.param(pour, id="body-without-end"),
        pytest.param(unpack_me, id="compressed"),
    ],
)
async def test_a_round_ends_and_the_others_are_known(bad: Speaks) -> None:
    """The round ends although the pod never does, and what other servers say is known."""
    woken: list[Key] = []
    async with speaking({HERE: in_trouble, THERE: bad}) as port, rounds.session() as session:
        servers = servers_of(port, {BAD: [THERE], WELL: [HERE]}, woken)
        with counted_turns():
            await servers.poll(session)

    assert woken == [WELL]
    assert [pool.full for one in servers.notable(WELL) for pool in one.pools] == [2]


async def test_a_namespace_full_of_such_pods_delays_no_other_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While 200 pods of a namespace drip, a model of another one is woken already."""
    monkeypatch.setattr(rounds, "_SECONDS", 3600.0)
    monkeypatch.setattr(rounds, "_NAMESPACE_SECONDS", 3600.0)
    woken: list[Key] = []
    async with speaking({HERE: in_trouble, THERE: drip_body}) as port, rounds.session() as session:
        servers = servers_of(port, {BAD: [THERE] * 200, WELL: [HERE]}, woken)
        going = asyncio.create_task(servers.poll(session))
        await eventually_async(lambda: bool(woken))
        assert not going.done()
        going.cancel()
        await asyncio.wait([going])

    assert woken == [WELL]


async def test_a_namespace_has_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pods of a namespace drip, its part of the round ends, and with it the round."""
    monkeypatch.setattr(rounds, "_SECONDS", 3600.0)
    async with speaking({THERE: drip_headers}) as port, rounds.session() as session:
        servers = servers_of(port, {BAD: [THERE] * 20}, [])
        with counted_turns():
            await servers.poll(session)

    assert servers.notable(BAD) == ()
