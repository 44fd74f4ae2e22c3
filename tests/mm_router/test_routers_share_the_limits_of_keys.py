"""Each router admits its share of the limits of keys: requests a minute and at one time."""

from pathlib import Path

import httpx
import pytest

from mm_api.documents.serving_plan import KeyLimitPlan
from mm_router.catalog import Model
from mm_router.key_admission import KeyAdmission, read_limits, share_of
from mm_router.metrics import RouterMetrics
from mm_router.settings import Settings
from support.gateways import MODEL, serve, toy_gateway
from support.routers import address_of, route
from support.scripted_engine import ScriptedEngine

SECONDS = 60


@pytest.mark.parametrize(("routers", "expected"), [(1, (10, 4)), (3, (4, 2)), (100, (1, 1))])
def test_a_share_is_rounded_up(routers: int, expected: tuple[int, int]) -> None:
    limit = KeyLimitPlan(name="a", requests_per_minute=10, concurrent_requests=4)
    share = share_of(limit, routers)

    assert (share.requests_per_minute, share.concurrent_requests) == expected
    assert share_of(KeyLimitPlan(name="a"), routers) == KeyLimitPlan(name="a")


def test_limits_are_read_strictly() -> None:
    assert read_limits(b'[{"name": "a", "requestsPerMinute": 2}]') == (
        KeyLimitPlan(name="a", requests_per_minute=2),
    )
    with pytest.raises(ValueError, match="requestPerMinute"):
        read_limits(b'[{"name": "a", "requestPerMinute": 2}]')
    with pytest.raises(ValueError, match=r"spec\.gateway\.keyLimits"):
        read_limits(b'[{"name": "a", "tokensPerMinute": 2}]')


def test_limits_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read is taken once; a file that cannot be read changes nothing."""
    path, seen = tmp_path / "limits.json", list[tuple[KeyLimitPlan, ...]]()
    (tmp_path / "tokens").write_text("alice: sk-a\n")
    keys = KeyAdmission(tmp_path / "tokens", 1, RouterMetrics(), lambda: 0.0)
    monkeypatch.setattr(keys, "set_limits", seen.append)
    with pytest.raises(FileNotFoundError):
        keys.load(path)

    path.write_text('[{"name": "a", "requestsPerMinute": 2}]')
    keys.load(path)
    keys.load(path)
    assert seen == [(KeyLimitPlan(name="a", requests_per_minute=2),)]

    path.write_text("[")
    with pytest.raises(ValueError, match="Invalid JSON"):
        keys.load(path)
    assert len(seen) == 1
    path.write_text("[]")
    keys.load(path)
    assert seen[1:] == [()]


async def test_a_router_refuses_with_a_time(tmp_path: Path) -> None:
    """Its half, in OpenAI's words."""
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
