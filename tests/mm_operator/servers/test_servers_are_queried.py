"""The operator queries running servers at pods' addresses, and wakes whom an answer is about."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest

from mm_api import labels
from mm_api.documents.server_state import Role
from mm_api.documents.serving_plan import MemoryPools
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache
from mm_operator.cluster.resources import POD
from mm_operator.servers import rounds
from mm_operator.servers.rounds import Servers
from mm_runtime.errors import ServerFailedError
from mm_runtime.launch.exposition import FULL_POOLS, Exposition
from mm_runtime.settings import Ports
from support.cases import cases
from support.eventually import eventually_async
from support.model_documents import document
from support.ports import free_ports

POOLS = MemoryPools(cuda_bytes=64 << 20, pinned_bytes=256 << 20, shm_bytes=1)
HERE, THERE = "127.0.0.1", "127.0.0.2"
KEY = Key("demo", "llava")


class Fleet:
    """Servers on addresses of this machine, the operator's caches, and its rounds."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._port = free_ports(1)[0]
        self._version = 0
        self.models, self.cache = ModelCache(), Cache()
        self.woken: list[Key] = []
        self.servers = Servers(
            models=self.models,
            cache=self.cache,
            wake=self.woken.append,
            interval_seconds=0.05,
            port=self._port,
        )
        self.models.put(
            {
                **document({}, KEY.name),
                "metadata": {
                    "name": KEY.name,
                    "namespace": KEY.namespace,
                    "uid": "uid-of-llava",
                    "generation": 1,
                    "resourceVersion": "1",
                    "creationTimestamp": "2026-01-02T03:04:05Z",
                },
            }
        )

    def serve(
        self,
        address: str,
        role: Role = Role.SERVER,
        warm_up_problem: Callable[[], str | None] = lambda: None,
    ) -> Exposition:
        shown = Ports(address=address, metrics=self._port)
        inner = Ports(metrics=free_ports(1)[0])
        shows = Exposition(
            shown, inner, POOLS, KEY.name, role=role, warm_up_problem=warm_up_problem
        )
        return self._stack.enter_context(shows)

    def pod(self, name: str, address: str, *, component: str = "server", **status: Any) -> None:
        self._version += 1
        self.cache.put(
            POD.kind,
            {
                "metadata": {
                    "name": name,
                    "namespace": KEY.namespace,
                    "uid": f"uid-of-{name}",
                    "resourceVersion": str(self._version),
                    "labels": {labels.MODEL: KEY.name, labels.APP_COMPONENT: component},
                },
                "status": {"phase": "Running", "podIP": address, **status},
            },
        )

    def gone(self, name: str) -> None:
        found = self.cache.find(POD.kind, KEY.namespace, name)
        self.cache.remove(POD.kind, found.parse())

    async def round(self) -> None:
        async with rounds.session() as session:
            await self.servers.poll(session)

    def full(self) -> list[dict[str, int]]:
        return [
            {pool.pool: pool.full for pool in one.pools if pool.full}
            for one in self.servers.notable(KEY)
        ]


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setattr(rounds, "_SECONDS", 60.0)
    with ExitStack() as stack:
        yield Fleet(stack)


def fills(server: Exposition) -> None:
    server.watch(lambda _line: None)(f"W0102 memory.cc:183] no memory, {FULL_POOLS['cuda']}")


async def test_a_full_pool_wakes_its_model_once(fleet: Fleet) -> None:
    first, second = fleet.serve(HERE), fleet.serve(THERE)
    fleet.pod("a", HERE)
    fleet.pod("b", THERE)
    await fleet.round()
    assert (fleet.woken, fleet.full()) == ([], [])

    fills(second)
    await fleet.round()
    await fleet.round()
    assert (fleet.woken, fleet.full()) == ([KEY], [{"cuda": 1}])

    fills(first)
    await fleet.round()
    assert (fleet.woken, fleet.full()) == ([KEY, KEY], [{"cuda": 1}, {"cuda": 1}])


async def test_a_warm_up_that_fails_wakes_its_model(fleet: Fleet) -> None:
    """Which pod's it is stays known, and its end is news, too."""
    said: list[str | None] = ["the question failed: 'x' is undefined"]
    fleet.serve(HERE, warm_up_problem=lambda: said[-1])
    fleet.serve(THERE)
    fleet.pod("a", HERE)
    fleet.pod("b", THERE)
    await fleet.round()
    await fleet.round()
    assert fleet.woken == [KEY]
    found = [fleet.servers.warm_up_problem(f"uid-of-{name}") for name in ("a", "b", "c")]
    assert found == ["the question failed: 'x' is undefined", "", ""]

    said.append(None)
    await fleet.round()
    assert (fleet.woken, fleet.servers.warm_up_problem("uid-of-a")) == ([KEY, KEY], "")


async def test_pods_of_ipv6_are_queried(fleet: Fleet) -> None:
    try:
        server = fleet.serve("::1")
    except ServerFailedError:
        pytest.skip("this machine has no ::1")
    fills(server)
    fleet.pod("a", "::1")
    await fleet.round()
    assert (fleet.woken, fleet.full()) == ([KEY], [{"cuda": 1}])


async def test_encoders_are_queried_beside_servers(fleet: Fleet) -> None:
    fills(fleet.serve(HERE))
    fills(fleet.serve(THERE, Role.ENCODER))
    fleet.pod("a", HERE)
    fleet.pod("b", THERE, component="encoder")
    await fleet.round()

    assert [one.role for one in fleet.servers.notable(KEY)] == ["server", "encoder"]


async def test_silence_changes_nothing_and_the_pods_end_does(fleet: Fleet) -> None:
    fills(fleet.serve(HERE))
    fleet.pod("a", HERE)
    await fleet.round()
    fleet.pod("a", "127.0.0.3")  # where no one listens

    await fleet.round()
    assert (fleet.woken, fleet.full()) == ([KEY], [{"cuda": 1}])

    fleet.gone("a")
    await fleet.round()
    assert (fleet.woken, fleet.full()) == ([KEY, KEY], [])


@cases(
    "pod",
    {
        "a-build": {"component": "build"},
        "not-started": {"phase": "Pending"},
        "no-address": {"podIP": ""},
    },
)
async def test_only_running_servers_are_queried(fleet: Fleet, pod: dict[str, Any]) -> None:
    """A server of others at an address of ours is left alone."""
    fills(fleet.serve(HERE))
    fleet.pod("a", HERE, **pod)
    await fleet.round()

    assert fleet.full() == []


@cases(
    "answer",
    {
        "older": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        "no-json": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nno!",
        "another-document": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        "redirect": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n",
        "no-http": b"garbage\r\n\r\n",
        "closes": b"",
    },
)
async def test_what_is_not_understood_is_silence(fleet: Fleet, answer: bytes) -> None:
    """An older runtime, or someone else on that port, costs no round and reports nothing."""
    async with answering(answer) as port:
        servers = Servers(
            models=fleet.models,
            cache=fleet.cache,
            wake=fleet.woken.append,
            interval_seconds=1,
            port=port,
        )
        fleet.pod("a", HERE)
        async with rounds.session() as session:
            await servers.poll(session)

        assert (servers.notable(KEY), fleet.woken) == ((), [])


async def test_silence_of_all_is_logged_once(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    """Where a NetworkPolicy is in between, an administrator reads so: once, not each round."""
    caplog.set_level(logging.INFO, logger="mm_operator.servers.rounds")
    fleet.pod("a", THERE)
    for _ in range(3):
        await fleet.round()
    assert caplog.text.count("none of 1 servers answers") == 1

    fleet.serve(THERE)
    await fleet.round()
    assert caplog.text.count("servers answer again") == 1


async def test_rounds_follow_each_other_until_the_lead_is_lost(fleet: Fleet) -> None:
    """The leader queries by itself; a new term begins without memory."""
    fills(fleet.serve(HERE))
    fleet.pod("a", HERE)
    term = asyncio.create_task(fleet.servers.lead())
    await eventually_async(lambda: bool(fleet.woken))
    term.cancel()
    with pytest.raises(asyncio.CancelledError):
        await term

    assert fleet.full() == [{"cuda": 1}]
    assert json.loads(fleet.servers.notable(KEY)[0].to_json())["formatVersion"] == 1


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[int]:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(speak, HERE, 0) as server:
        yield server.sockets[0].getsockname()[1]
