"""A canary on a real API server, with real operator and router: toy gateways are its two versions.

What a kubelet would do the test does: it places the pods of each version at the address of its
gateway, and makes them ready.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from mm_ctl.cli import main
from support.absent_kubelet import get, pods
from support.eventually import eventually, eventually_async
from support.gateways import MODEL
from support.model_documents import document
from support.model_namespace import Api
from support.scripted_engine import ScriptedEngine
from support.sleeping_models import PODS, SERVERS, Sleeping, served_model

pytestmark = [pytest.mark.cluster, pytest.mark.root, pytest.mark.timeout(300)]

CANARY = f"{PODS}=canary"
USERS = 3
"""Fewer than a gateway takes at a time: one more would be refused by either version."""

ANALYSIS = {"firstTextIncreasePercent": 50, "errorIncreasePercent": 20}


def version(team: str, deadline: str = "30m", **last_step: Any) -> dict[str, Any]:
    steps = [{"weight": 40}, {"weight": 60, **last_step}]
    canary = {"steps": steps, "analysis": ANALYSIS}
    rollout = {"strategy": "Canary", "canary": canary, "progressDeadline": deadline}
    return {"runtime": {"podLabels": {"team": team}}, "rollout": rollout}


class Site(Sleeping):
    """A model whose version `first` serves."""

    async def apply(self, team: str, *deadline: str, **last_step: Any) -> None:
        spec = version(team, *deadline, **last_step)
        await asyncio.to_thread(self.api.apply, document(spec, MODEL))

    def state(self) -> dict[str, Any]:
        status: dict[str, Any] = get(self.api, "mmm", MODEL)["status"].get("rollout", {})
        return status

    def teams(self, selector: str) -> list[str]:
        return sorted(one["metadata"]["labels"]["team"] for one in pods(self.api, selector))

    async def reaches(self, **expected: Any) -> dict[str, Any]:
        def reached() -> bool:
            return expected.items() <= self.state().items()

        await eventually_async(reached, pause_seconds=0.5, seconds=90)
        return self.state()


async def query(url: str, number: int, statuses: list[int]) -> None:
    """Begin one chat after the other, every other streamed, and note how each was answered."""
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        while True:
            number += USERS
            messages = [{"role": "user", "content": f"hello from user {number}"}]
            body = {"model": MODEL, "stream": number % 2 == 0, "messages": messages}
            answer = await client.post("/v1/chat/completions", json=body)
            statuses.append(500 if '"error"' in answer.text else answer.status_code)
            await asyncio.sleep(0.01)


def canary_site(
    api: Api, folder: Path, canary: ScriptedEngine | None = None
) -> AbstractAsyncContextManager[Site]:
    engines = {"first": ScriptedEngine(), "second": canary or ScriptedEngine()}
    return served_model(Site, api, folder, version("first"), engines)


@asynccontextmanager
async def users(site: Site) -> AsyncIterator[list[int]]:
    statuses = list[int]()
    tasks = [asyncio.create_task(query(site.url, one, statuses)) for one in range(USERS)]
    try:
        yield statuses
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def mmctl(api: Api, command: str) -> int:
    options = [f"--kubeconfig={api.cluster.kubeconfig}", f"--namespace={api.namespace}"]
    return await asyncio.to_thread(main, ["rollout", command, MODEL, *options])


async def test_a_good_version_is_promoted_without_a_failed_request(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its operator is killed on the way, and its successor continues."""
    async with canary_site(api, tmp_path) as site:
        async with users(site) as statuses:
            await site.apply("second", pause="3s")
            await site.reaches(phase="Progressing", step=1, weight=40)
            assert site.teams(SERVERS) == ["first"]
            assert site.teams(CANARY) == ["second"]
            assert await mmctl(api, "status") == 0
            assert "Progressing, step 1, 40 % of the chats" in capsys.readouterr().out
            await asyncio.to_thread(site.kill_operator)
            await asyncio.to_thread(site.start_operator)
            await site.reaches(step=2, weight=60)
            await site.reaches(phase="Promoted", weight=0)
            await eventually_async(lambda: not site.teams(CANARY), pause_seconds=0.5)
        assert site.teams(SERVERS) == ["second"]
        assert set(statuses) == {200}
        names = {one["metadata"]["name"] for one in api.read("services")["items"]}
        assert names == {MODEL}


async def test_a_bad_version_goes_back(api: Api, tmp_path: Path) -> None:
    reason, engine = "ErrorsIncreased", ScriptedEngine(error=RuntimeError("no"))
    async with canary_site(api, tmp_path, engine) as site:
        async with users(site) as statuses:
            await site.apply("second")
            back = await site.reaches(phase="RolledBack", weight=0)
            await eventually_async(lambda: not site.teams(CANARY), pause_seconds=0.5)
            before = len(statuses)
            await eventually_async(lambda: len(statuses) > before + 50, pause_seconds=0.2)
            assert set(statuses[before + USERS :]) == {200}
        assert (back["step"], back["reason"]) == (1, reason)
        assert site.teams(SERVERS) == ["first"]
        api.reaches(MODEL, "Degraded", "CanaryRolledBack", reason)
        api.reaches(MODEL, "Ready", "True")
        listed = eventually(
            lambda: [
                one
                for one in api.read("events")["items"]
                if one["reason"] == "CanaryRolledBack" and one["type"] == "Warning"
            ]
        )
        assert reason in listed[0]["message"]


async def test_a_version_that_never_starts_goes_back(api: Api, tmp_path: Path) -> None:
    async with canary_site(api, tmp_path) as site:
        async with users(site) as statuses:
            await site.apply("broken", "8s")
            back = await site.reaches(phase="RolledBack")
        assert back["reason"] == "ProgressDeadlineExceeded"
        assert set(statuses) == {200}
        # A person may take it all the same; the stable one stays until it answers.
        assert await mmctl(api, "abort") == 1
        assert await mmctl(api, "promote") == 0
        await site.reaches(phase="Promoting")
        await eventually_async(lambda: site.teams(SERVERS) == ["broken", "first"])
