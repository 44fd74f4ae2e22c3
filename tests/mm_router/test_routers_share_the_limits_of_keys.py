"""Each router lets in its share of the limits of keys: requests, tokens, and both at one time."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from mm_api.documents.serving_plan import KeyLimitPlan
from mm_edge.errors import KeyLimitError
from mm_router.catalog import Model
from mm_router.key_admission import KeyAdmission, read_limits, share_of
from mm_router.metrics import RouterMetrics
from mm_router.settings import Settings
from support.eventually import eventually_async
from support.gateways import MODEL, serve, toy_gateway
from support.routers import RunningRouter, address_of, route
from support.scripted_engine import ScriptedEngine

SECONDS = 60
KEY = "Bearer sk-a"


@pytest.mark.parametrize(
    ("routers", "expected"), [(1, (10, 4, 500)), (3, (4, 2, 167)), (100, (1, 1, 5))]
)
def test_a_share_is_rounded_up(routers: int, expected: tuple[int, int, int]) -> None:
    limit = KeyLimitPlan(
        name="a", requests_per_minute=10, concurrent_requests=4, tokens_per_minute=500
    )
    share = share_of(limit, routers)

    found = (share.requests_per_minute, share.concurrent_requests, share.tokens_per_minute)
    assert found == expected
    assert share_of(KeyLimitPlan(name="a"), routers) == KeyLimitPlan(name="a")


def test_limits_are_read_strictly() -> None:
    assert read_limits(b'[{"name": "a", "requestsPerMinute": 2}]') == (
        KeyLimitPlan(name="a", requests_per_minute=2),
    )
    with pytest.raises(ValueError, match="requestPerMinute"):
        read_limits(b'[{"name": "a", "requestPerMinute": 2}]')


def test_what_was_not_used_is_given_back(tmp_path: Path) -> None:
    """Of 600 tokens 100 were used, then 300 of 200: of 1,000 there are 600 left."""
    (tmp_path / "tokens").write_text("alice: sk-a\n")
    metrics = RouterMetrics()
    keys = KeyAdmission(tmp_path / "tokens", 1, metrics, lambda: 0.0)
    keys.set_limits([KeyLimitPlan(name="alice", tokens_per_minute=1000)])
    for reserved, used in ((600, 100), (200, 300)):
        with keys.counted(KEY) as use:
            assert use.counts_tokens
            use.reserve(reserved)
            use.used = used

    assert metrics.registry.get_sample_value("mm_router_key_tokens_total", {"key": "alice"}) == 400
    with keys.counted(KEY) as use:
        use.reserve(600)
        with pytest.raises(KeyLimitError, match="`alice` may use 1000 tokens a minute"):
            use.reserve(1)


async def test_a_router_refuses_with_a_time(tmp_path: Path) -> None:
    """Its half, in OpenAI's words; counting tokens needs a token and is not limited."""
    (tmp_path / "tokens").write_text("alice: sk-a\n")
    settings = Settings(auth_file=tmp_path / "tokens", routers=2)
    gateway = toy_gateway(tmp_path / "engine", ScriptedEngine())
    async with (
        serve(gateway) as running,
        route({Model("blue", MODEL): [address_of(running)]}, settings) as router,
        httpx.AsyncClient(base_url=router.url, timeout=SECONDS) as client,
    ):
        keys = router.router.keys
        assert keys is not None
        keys.set_limits([KeyLimitPlan(name="alice", requests_per_minute=2)])
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
        known = {"authorization": "Bearer sk-a"}
        unknown = await client.post("/v1/chat/completions", json=body)
        chats = [
            await client.post("/v1/chat/completions", json=body, headers=known) for _ in range(2)
        ]

        assert (unknown.status_code, unknown.json()["error"]["code"]) == (401, "missing_api_key")
        assert [one.status_code for one in chats] == [200, 429]
        assert 1 <= int(chats[1].headers["retry-after"]) <= SECONDS
        assert "`alice` may use 1 requests a minute" in chats[1].json()["error"]["message"]
        rejected = "mm_router_key_rejected_total"
        value = router.router.metrics.registry.get_sample_value
        assert value(rejected, {"key": "alice", "reason": "key_requests"}) == 1
        (tmp_path / "tokens").write_text("bob: sk-b\n")
        bob = {"authorization": "Bearer sk-b"}
        assert (
            await client.post("/v1/chat/completions", json=body, headers=bob)
        ).status_code == 200
        assert value(rejected, {"key": "alice", "reason": "key_requests"}) is None


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
        keys._clock = lambda: 0.0  # nothing comes back meanwhile
        keys.set_limits([KeyLimitPlan(name="alice", **limit)])
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
