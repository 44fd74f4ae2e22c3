"""Limits by the names of tokens hold over all routers; what is lost with a router is bounded."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from mm_api.documents.serving_plan import KeyLimitPlan
from mm_router import remote_claims
from mm_router.catalog import Model
from mm_router.key_admission import read_limits, share_of
from mm_router.peers import Peers
from mm_router.remote_claims import OwnerLostError, RemoteClaims
from mm_router.settings import Settings
from support.eventually import eventually_async
from support.gateways import MODEL, serve, toy_gateway
from support.routers import address_of, route
from support.scripted_engine import ScriptedEngine
from support.toy_processes import Toy, listening, started

NAMES = [f"key-{number}" for number in range(300)]
ROUTERS = ("router-a", "router-b", "router-c")
SECONDS = 60


def owners(own: str, ready: Sequence[str]) -> dict[str, str]:
    peers = Peers(own)
    peers.set_ready({one: one for one in ready})
    return {name: peers.owner_of(name) or own for name in NAMES}


def test_routers_agree_who_counts() -> None:
    """Each key has one owner, all have a share of the keys, and one that goes moves its own."""
    seen = [owners(one, ROUTERS) for one in ROUTERS]
    assert seen[0] == seen[1] == seen[2]
    assert all(60 <= count <= 140 for count in Counter(seen[0].values()).values())

    left = owners(ROUTERS[0], ROUTERS[:2])
    assert all(left[name] == owner for name, owner in seen[0].items() if owner != ROUTERS[2])


def test_a_router_that_ends_counts_nothing() -> None:
    """It is not ready, still has requests, and they are counted where the others count."""
    assert owners(ROUTERS[2], ROUTERS[:2]) == owners(ROUTERS[0], ROUTERS[:2])
    assert set(owners(ROUTERS[0], []).values()) == {ROUTERS[0]}


@pytest.mark.parametrize(
    ("routers", "expected"), [(1, (10, 4, 500)), (3, (4, 2, 167)), (100, (1, 1, 5))]
)
def test_a_share_is_rounded_up(routers: int, expected: tuple[int, int, int]) -> None:
    """Every router lets one in, at the least."""
    limit = KeyLimitPlan(
        name="a", requests_per_minute=10, concurrent_requests=4, tokens_per_minute=500
    )
    share = share_of(limit, routers)

    found = (share.requests_per_minute, share.concurrent_requests, share.tokens_per_minute)
    assert found == expected
    assert share_of(KeyLimitPlan(name="a"), routers) == KeyLimitPlan(name="a")


def test_limits_are_read_strictly() -> None:
    """As the chart writes them; a typo is an error."""
    assert read_limits(b'[{"name": "a", "requestsPerMinute": 2}]') == (
        KeyLimitPlan(name="a", requests_per_minute=2),
    )
    with pytest.raises(ValueError, match="requestPerMinute"):
        read_limits(b'[{"name": "a", "requestPerMinute": 2}]')


@dataclass
class Site:
    """Three routers in front of one replica, whose engine answers when its gate opens."""

    routers: list[Toy]
    claims: list[str]
    engine: ScriptedEngine
    sent: list[asyncio.Task[int]] = field(default_factory=list)

    def ready(self, numbers: Sequence[int]) -> None:
        """Let routers know which of them are ready."""
        line = json.dumps(
            {one: f"127.0.0.1:{one}" for one in map(self.claims.__getitem__, numbers)}
        )
        for number in numbers:
            process = self.routers[number].process
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline() == b"done\n"

    def key_of(self, owner: int) -> str:
        peers = Peers("none")
        peers.set_ready({one: one for one in self.claims})
        return next(name for name in NAMES if peers.owner_of(name) == self.claims[owner])

    def send(self, client: httpx.AsyncClient, key: str, *routers: int) -> list[asyncio.Task[int]]:
        tasks = [asyncio.create_task(self._status(client, key, number)) for number in routers]
        self.sent += tasks
        return tasks

    async def _status(self, client: httpx.AsyncClient, key: str, router: int) -> int:
        url = f"http://{self.routers[router].address}/v1/chat/completions"
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
        headers = {"authorization": f"Bearer sk-{key}"}
        try:
            return (await client.post(url, json=body, headers=headers)).status_code
        except httpx.TransportError:
            return 0

    async def settled(self) -> None:
        """Wait until every request is refused or runs."""
        await eventually_async(
            lambda: sum(not one.done() for one in self.sent) == self.engine.running
        )
        assert {one.result() for one in self.sent if one.done()} <= {429}

    async def fill(self, client: httpx.AsyncClient, key: str, *routers: int, most: int) -> None:
        """Send requests until as many run as may, and see that one more never does.

        A place is free a moment after the answer has ended: its router closes the claim then.
        """

        async def full() -> bool:
            self.send(client, key, *routers)
            await self.settled()
            assert self.engine.running <= most
            return self.engine.running == most

        await eventually_async(full)
        assert await full()

    async def finish(self) -> None:
        """Let everything that runs end."""
        gate = self.engine.gate
        assert gate is not None
        gate.set()
        await asyncio.gather(*self.sent)
        await eventually_async(lambda: self.engine.running == 0)
        self.sent.clear()
        gate.clear()


@asynccontextmanager
async def site(folder: Path, **limit: int) -> AsyncIterator[tuple[Site, httpx.AsyncClient]]:
    """Run replica and routers until the block ends; every key has the limit."""
    (folder / "tokens").write_text("".join(f"{name}: sk-{name}\n" for name in NAMES[:200]))
    (folder / "limits.json").write_text(json.dumps([{"name": "*", **limit}]))
    engine = ScriptedEngine(gate=asyncio.Event())
    gateway = toy_gateway(folder / "engine", engine, max_concurrency=64, max_queue_size=64)
    async with (
        serve(gateway) as replica,
        httpx.AsyncClient(timeout=SECONDS, limits=httpx.Limits(max_connections=None)) as client,
    ):
        with processes(folder, address_of(replica)) as (routers, claims):
            one = Site(routers, claims, engine)
            one.ready(range(3))
            yield one, client


@contextmanager
def processes(folder: Path, replica: str) -> Iterator[tuple[list[Toy], list[str]]]:
    """Run three routers; return them, and the ports at which they take claims."""
    with ExitStack() as stack:
        begun = [stack.enter_context(started("limited", folder, replica)) for _ in range(3)]
        routers = [listening(one) for one in begun]
        yield routers, [str(int(one.stdout.readline())) for one in begun if one.stdout is not None]


async def test_requests_at_one_time_are_of_all_routers(tmp_path: Path) -> None:
    """Three, whichever routers they are at; a router that dies gives places back, or divides."""
    async with site(tmp_path, concurrentRequests=3) as (one, client):
        key = one.key_of(owner=0)
        held = one.send(client, key, 0, 1, 2)
        await eventually_async(lambda: one.engine.running == 3)
        await one.fill(client, key, *(0, 1, 2) * 4, most=3)
        await one.finish()
        assert [task.result() for task in held] == [200] * 3
        await one.fill(client, key, *(0, 1, 2) * 4, most=3)
        await one.finish()

        # A router that is killed holds its places no longer.
        await one.fill(client, key, 2, 2, 2, most=3)
        one.send(client, key, 0, 1)
        await one.settled()
        await asyncio.to_thread(one.routers[2].kill)
        assert Counter(await asyncio.gather(*one.sent))[0] == 3
        one.sent.clear()
        await eventually_async(lambda: one.engine.running == 0)
        await one.fill(client, key, *(0, 1) * 6, most=3)
        await one.finish()

        # Its own keys: each router by its share, a third; then the two that are left share again.
        orphan = one.key_of(owner=2)
        await one.fill(client, orphan, *(0, 1) * 6, most=2)
        await one.finish()
        await asyncio.to_thread(one.ready, range(2))
        await one.fill(client, orphan, *(0, 1) * 6, most=3)
        await one.finish()


async def test_requests_a_minute_are_of_all_routers(tmp_path: Path) -> None:
    """One a minute, at whichever router; another key has its own, and others' tokens are none."""
    async with site(tmp_path, requestsPerMinute=1) as (one, client):
        for owner in range(3):
            key = one.key_of(owner)
            one.send(client, key, *(0, 1, 2) * 3)
            await one.settled()
            assert one.engine.running == 1
            await one.finish()
            assert await asyncio.gather(*one.send(client, key, 0, 1, 2)) == [429] * 3
        assert await asyncio.gather(*one.send(client, "unknown", 0, 1, 2)) == [401] * 3


@pytest.mark.slow
async def test_tokens_a_minute_are_of_all_routers(tmp_path: Path) -> None:
    """One answer of any length has a minute's worth; one that ended gives back what it had not."""
    async with site(tmp_path, tokensPerMinute=4000) as (one, client):
        for owner in range(3):
            key = one.key_of(owner)
            await one.fill(client, key, *(0, 1, 2) * 3, most=1)
            await one.finish()
        await one.fill(client, key, 2, 0, 1, most=1)
        await one.finish()

        # The routers that are left: each by its share, which lets one in that needs all of it.
        await asyncio.to_thread(one.routers[2].kill)
        await one.fill(client, key, *(0, 1) * 6, most=2)
        await one.finish()


async def test_an_owner_that_is_silent_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts and says nothing: the request waits its second, the next one does not."""
    monkeypatch.setattr(remote_claims, "_CLAIM_SECONDS", 0.2)
    silent: list[asyncio.StreamWriter] = []
    claims = RemoteClaims(lambda: 0.0)
    async with await asyncio.start_server(
        lambda _, writer: silent.append(writer), "127.0.0.1", 0
    ) as server:
        owner = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with asyncio.timeout(SECONDS):
            for reason in ("TimeoutError", "it did not answer before"):
                with pytest.raises(OwnerLostError, match=reason):
                    async with claims.claim(owner, "Bearer sk-a", "a"):
                        pass
            await claims.close()
        assert len(silent) == 1
        silent[0].close()


async def test_a_router_alone_refuses_with_a_time(tmp_path: Path) -> None:
    """In OpenAI's words; counting tokens needs a token and is not limited."""
    (tmp_path / "tokens").write_text("alice: sk-a\n")
    settings = Settings(auth_file=tmp_path / "tokens")
    gateway = toy_gateway(tmp_path / "engine", ScriptedEngine())
    async with (
        serve(gateway) as running,
        route({Model("blue", MODEL): [address_of(running)]}, settings) as router,
        httpx.AsyncClient(base_url=router.url, timeout=SECONDS) as client,
    ):
        keys = router.router.keys
        assert keys is not None
        keys.admission.set_limits([KeyLimitPlan(name="alice", requests_per_minute=1)])
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
        known = {"authorization": "Bearer sk-a"}
        unknown = await client.post("/v1/chat/completions", json=body)
        chats = [
            await client.post("/v1/chat/completions", json=body, headers=known) for _ in range(2)
        ]
        text = {"model": MODEL, "prompt": "a"}
        counted = [await client.post("/tokenize", json=text, headers=h) for h in ({}, known, known)]

        assert (unknown.status_code, unknown.json()["error"]["code"]) == (401, "missing_api_key")
        assert [one.status_code for one in chats] == [200, 429]
        assert 1 <= int(chats[1].headers["retry-after"]) <= SECONDS
        assert "`alice` may use 1 requests a minute" in chats[1].json()["error"]["message"]
        assert [one.status_code for one in counted] == [401, 200, 200]
        rejected = "mm_router_key_rejected_total"
        value = router.router.metrics.registry.get_sample_value
        assert value(rejected, {"key": "alice", "reason": "key_requests"}) == 1
        (tmp_path / "tokens").write_text("bob: sk-b\n")
        bob = {"authorization": "Bearer sk-b"}
        assert (await client.post("/tokenize", json=text, headers=bob)).status_code == 200
        assert value(rejected, {"key": "alice", "reason": "key_requests"}) is None
