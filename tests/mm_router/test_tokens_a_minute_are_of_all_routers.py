"""A key's tokens a minute hold over all routers: reserved at its owner, settled by the answer."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from mm_api.documents.serving_plan import KeyLimitPlan
from mm_edge.drain import Drain
from mm_edge.errors import KeyLimitError
from mm_edge.server import EdgeServer
from mm_router.assembly import claims_server
from mm_router.catalog import Model
from mm_router.key_use import KeyUse
from mm_router.metrics import RouterMetrics
from mm_router.settings import Settings
from mm_router.shared_keys import SharedKeys
from support.eventually import eventually_async
from support.gateways import MODEL, serve, toy_gateway
from support.routers import RunningRouter, address_of, route
from support.scripted_engine import ScriptedEngine

SECONDS = 60
KEY = "Bearer sk-a"
NEVER = "127.0.0.1:1"


@dataclass
class Pair:
    """The router that counts the key, and another one; their clock stands still."""

    owner: SharedKeys
    other: SharedKeys
    server: EdgeServer
    serving: asyncio.Task[None]
    port: int
    metrics: RouterMetrics

    async def left(self, tokens: int) -> bool:
        """Return whether so many tokens can be reserved at the owner, and not one more."""
        async with self.owner.admission.counted(KEY) as use:
            return not await _fits(use, tokens + 1) and await _fits(use, tokens)


async def _fits(use: KeyUse, tokens: int) -> bool:
    try:
        await use.reserve(tokens)
    except KeyLimitError:
        return False
    return True


@asynccontextmanager
async def pair(folder: Path, **limit: int) -> AsyncIterator[Pair]:
    """Run both until the block ends."""
    (folder / "tokens").write_text("alice: sk-a\n")
    metrics = RouterMetrics()
    owner = SharedKeys(folder / "tokens", "a", RouterMetrics(), lambda: 0.0)
    other = SharedKeys(folder / "tokens", "b", metrics, lambda: 0.0)
    server = claims_server(owner, Drain(), Settings(address="127.0.0.1", claims_port=0))
    serving = asyncio.create_task(server.serve())
    try:
        await eventually_async(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        for keys in (owner, other):
            keys.admission.set_limits([KeyLimitPlan(name="alice", **limit)])
            keys.set_ready({"a": f"127.0.0.1:{port}"})
        yield Pair(owner, other, server, serving, port, metrics)
    finally:
        server.should_exit = server.force_exit = True
        await other.close()
        await owner.close()
        async with asyncio.timeout(SECONDS):
            await serving


async def test_what_was_not_used_is_given_back(tmp_path: Path) -> None:
    """Of 600 that another router reserved 100 were used; of the next 200 it used 300."""
    async with pair(tmp_path, tokens_per_minute=1000) as one:
        async with one.other.admission.counted(KEY) as use:
            assert use.is_counted
            await use.reserve(600)
            assert await one.left(400)
            use.used = 100
        await eventually_async(lambda: one.left(900))
        async with one.other.admission.counted(KEY) as use:
            await use.reserve(200)
            use.used = 300
        await eventually_async(lambda: one.left(600))

        tokens = one.metrics.registry.get_sample_value(
            "mm_router_key_tokens_total", {"key": "alice"}
        )
        assert tokens == 400


async def test_a_refusal_is_the_owners(tmp_path: Path) -> None:
    async with pair(tmp_path, tokens_per_minute=60) as one, one.other.admission.counted(KEY) as use:
        await use.reserve(50)
        with pytest.raises(KeyLimitError, match="`alice` may use 60 tokens a minute") as refused:
            async with one.other.admission.counted(KEY) as second:
                await second.reserve(40)
        assert (refused.value.reason, refused.value.retry_after_seconds) == ("key_tokens", 30)
        assert await one.left(10)


async def test_of_a_router_that_dies_all_that_was_reserved_counts(tmp_path: Path) -> None:
    async with pair(tmp_path, tokens_per_minute=1000, concurrent_requests=2) as one:
        async with one.other.admission.counted(KEY) as use:
            await use.reserve(600)
            for connection in list(one.server.server_state.connections):
                connection.transport.abort()
        await eventually_async(lambda: one.left(400))


async def test_an_owner_that_dies_leaves_shares(tmp_path: Path) -> None:
    """Its places are gone: the others count by their share, tokens, too."""
    async with (
        pair(tmp_path, tokens_per_minute=1000) as one,
        one.other.admission.counted(KEY) as use,
    ):
        await use.reserve(600)
        one.server.should_exit = one.server.force_exit = True
        async with asyncio.timeout(SECONDS):
            await asyncio.shield(one.serving)

        # Of 1,000 there were 400 left at the owner; the share of one of two routers is 500.
        assert await _fits(use, 500)
        assert not await _fits(use, 1)


async def test_no_client_settles_a_claim(tmp_path: Path) -> None:
    """A client that reaches the port knows no number of a claim, and cannot settle one."""
    async with (
        pair(tmp_path, tokens_per_minute=1000) as one,
        httpx.AsyncClient(timeout=60) as client,
    ):
        async with one.other.admission.counted(KEY) as use:
            await use.reserve(600)
            use.used = 600
            for query in ("", "claim=&used=0", "claim=x&used=0", "claim=x&reserve=-5", "used=0"):
                answer = await client.post(
                    f"http://127.0.0.1:{one.port}/claims/tokens?{query}",
                    headers={"authorization": KEY},
                )
                assert answer.status_code == 400
        await eventually_async(lambda: one.left(400))


@asynccontextmanager
async def routed(
    folder: Path, **limit: int
) -> AsyncIterator[tuple[RunningRouter, httpx.AsyncClient]]:
    """Run a router alone with a limit, in front of a real gateway."""
    (folder / "tokens").write_text("alice: sk-a\n")
    async with AsyncExitStack() as stack:
        gateway = toy_gateway(folder / "engine", ScriptedEngine())
        running = await stack.enter_async_context(serve(gateway))
        models = {Model("blue", MODEL): [address_of(running)]}
        settings = Settings(auth_file=folder / "tokens")
        router = await stack.enter_async_context(route(models, settings))
        keys = router.router.keys
        assert keys is not None
        keys.admission._clock = lambda: 0.0  # nothing comes back meanwhile
        keys.admission.set_limits([KeyLimitPlan(name="alice", **limit)])
        client = httpx.AsyncClient(
            base_url=router.url, timeout=SECONDS, headers={"authorization": KEY}
        )
        yield router, await stack.enter_async_context(client)


def chat(**parameters: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "hello"}]
    return {"model": MODEL, "messages": messages, "max_tokens": 8, **parameters}


async def test_answers_settle_what_was_reserved(tmp_path: Path) -> None:
    """By their usage, complete or streamed; without one by their text; a refused one by nothing."""
    async with routed(tmp_path, tokens_per_minute=1_000_000) as (router, client):

        async def used(body: dict[str, Any], status: int = 200) -> tuple[float, str]:
            before = router.count("mm_router_key_tokens_total", key="alice")
            answer = await client.post("/v1/chat/completions", json=body)
            assert answer.status_code == status
            await eventually_async(lambda: not router.router.drain._inside)
            return router.count("mm_router_key_tokens_total", key="alice") - before, answer.text

        complete, text = await used(chat())
        assert complete == json.loads(text)["usage"]["total_tokens"] < 20
        streamed, _ = await used(chat(stream=True, stream_options={"include_usage": True}))
        assert streamed == complete
        unstated, _ = await used(chat(stream=True))
        assert 35 <= unstated <= 50  # 32 of each request, texts of 5 and 12 letters, names
        assert (await used(chat(temperature=-1), 400))[0] == 0


async def test_too_many_tokens_are_refused_with_a_time(tmp_path: Path) -> None:
    """Also where one request has more than a minute's worth: it needs all of it."""
    async with routed(tmp_path, tokens_per_minute=60) as (router, client):
        body = chat(max_tokens=200)
        first = await client.post("/v1/chat/completions", json=body)
        second = await client.post("/v1/chat/completions", json={**body, "model": "blue/toy"})

        assert (first.status_code, second.status_code) == (200, 429)
        assert 1 <= int(second.headers["retry-after"]) <= SECONDS
        error = second.json()["error"]
        assert "`alice` may use 60 tokens a minute" in error["message"]
        assert error["code"] == "rate_limit_exceeded"
        rejected = {"key": "alice", "reason": "key_tokens"}
        assert router.count("mm_router_key_rejected_total", **rejected) == 1
