"""Zero and back on a real API server: requests are held, and answered under kills of anyone."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from support.absent_kubelet import get
from support.eventually import eventually
from support.gateways import MODEL
from support.model_namespace import Api
from support.sleeping_models import Sleeping, sleeping_model

pytestmark = [pytest.mark.cluster, pytest.mark.root]

MESSAGES: Any = [{"role": "user", "content": "hello"}]


async def query(site: Sleeping, *, stream: bool) -> str:
    """Send as the official client does: it sends what is cut again."""
    async with openai.AsyncOpenAI(
        base_url=f"{site.url}/v1", api_key="none", max_retries=20, timeout=120
    ) as client:
        if not stream:
            answer = await client.chat.completions.create(model=MODEL, messages=MESSAGES)
            return answer.choices[0].message.content or ""
        chunks = await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
        return "".join([one.choices[0].delta.content or "" async for one in chunks])


def kill_none(_site: Sleeping) -> None:
    """Leave all as it is."""


def kill_operator(site: Sleeping) -> None:
    site.kill_operator()
    site.start_operator()


def kill_router(site: Sleeping) -> None:
    site.kill_router()
    site.start_router()


async def wake(site: Sleeping, kill: Callable[[Sleeping], None], *, stream: bool) -> None:
    await asyncio.to_thread(site.fall_asleep)
    requests = [asyncio.ensure_future(query(site, stream=stream)) for _ in range(3)]
    await asyncio.sleep(random.uniform(0, 1.5))  # noqa: S311  # before, at and after the wake
    await asyncio.to_thread(kill, site)
    assert await asyncio.gather(*requests) == ["a red square"] * 3


def history(api: Api) -> list[tuple[int, int, str]]:
    found = get(api, "mmm", MODEL).get("status", {}).get("scaling", {}).get("history", [])
    return [(one["fromReplicas"], one["toReplicas"], one["reason"].split(":")[0]) for one in found]


async def test_a_held_request_starts_a_replica_and_is_answered(api: Api, tmp_path: Path) -> None:
    async with sleeping_model(api, tmp_path) as site:
        await asyncio.to_thread(site.fall_asleep)
        asleep = api.condition(MODEL, "Ready")
        assert (asleep["status"], asleep["reason"]) == ("True", "ScaledToZero")

        assert await query(site, stream=False) == "a red square"

        assert site.held() == {}
        await asyncio.to_thread(api.reaches, MODEL, "Ready", "ReplicasAvailable")
        await asyncio.to_thread(eventually, lambda: (0, 1, "RequestsHeld") in history(api))


async def test_killed_operators_and_routers_lose_no_request(api: Api, tmp_path: Path) -> None:
    async with sleeping_model(api, tmp_path) as site:
        for number, kill in enumerate((kill_operator, kill_router, kill_none)):
            await wake(site, kill, stream=bool(number % 2))


@pytest.mark.slow
@pytest.mark.timeout(5400)
async def test_two_hundred_models_wake_under_kills(api: Api, tmp_path: Path) -> None:
    """One model, 200 times: goal of the page on scaling to zero."""
    kills = (kill_operator, kill_router, kill_none, kill_none)
    async with sleeping_model(api, tmp_path) as site:
        for number in range(200):
            await wake(site, kills[number % 4], stream=bool(number % 3))
