"""A canary on a real API server, with real operator and router: toy gateways are its two versions.

What a kubelet would do the test does: it places the pods of each version at the address of its
gateway, and makes them ready.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from mm_api.contract import GATEWAY_PORT
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from support.absent_kubelet import built, get, inspected, pods, ready_status, set_status
from support.bound_pods import bind, empty_node
from support.cases import cases
from support.ended import end
from support.eventually import eventually, eventually_async
from support.gateways import MODEL, serve, toy_gateway
from support.model_documents import document
from support.model_namespace import Api
from support.scripted_engine import ScriptedEngine
from support.sleeping_models import Sleeping, announce, own_address

pytestmark = [pytest.mark.cluster, pytest.mark.root, pytest.mark.timeout(300)]

PODS = f"serving.multimodal.dev/model={MODEL},app.kubernetes.io/component"
STABLE, CANARY = f"{PODS}=server", f"{PODS}=canary"
USERS = 3
"""Fewer than a gateway takes at a time: one more would be refused by either version."""

ANALYSIS = {"firstTextIncreasePercent": 50, "errorIncreasePercent": 20}


@dataclass
class SlowEngine(ScriptedEngine):
    """Waits before its first token."""

    seconds: float = 0.0

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        await asyncio.sleep(self.seconds)
        async for one in super().generate(request):
            yield one


@dataclass
class Site(Sleeping):
    """Versions by their label `team`, each with the address of its gateway; others never start."""

    versions: dict[str, str] = field(default_factory=dict)

    def _look_at_pods(self) -> None:
        listed = json.loads(self.api.kubectl("get", "pods", "-l", PODS, "-o", "json"))
        for pod in listed["items"]:
            name = pod["metadata"]["name"]
            address = self.versions.get(pod["metadata"]["labels"].get("team"))
            if "deletionTimestamp" in pod["metadata"]:
                self.api.kubectl("delete", "pod", name, "--force", "--grace-period=0", check=False)
            elif "nodeName" not in pod["spec"]:
                bind(self.api, pod, self.node)
            elif "podIP" not in pod["status"] and address:
                addresses = {"podIP": address, "podIPs": [{"ip": address}]}
                set_status(self.api, pod, {**ready_status(pod), **addresses})

    def apply_version(self, team: str, deadline: str = "30m", **more: Any) -> None:
        canary = {"steps": [{"weight": 40}, {"weight": 60, **more}], "analysis": ANALYSIS}
        rollout = {"strategy": "Canary", "canary": canary, "progressDeadline": deadline}
        spec = {"runtime": {"podLabels": {"team": team}}, "rollout": rollout}
        self.api.apply(document(spec, MODEL))

    def state(self) -> dict[str, Any]:
        status: dict[str, Any] = get(self.api, "mmm", MODEL)["status"].get("rollout", {})
        return status

    def teams(self, selector: str) -> list[str]:
        return sorted(one["metadata"]["labels"]["team"] for one in pods(self.api, selector))

    async def reaches(self, **expected: Any) -> dict[str, Any]:
        def reached() -> bool:
            return expected.items() <= self.state().items()

        try:
            await eventually_async(reached, pause_seconds=0.5, seconds=90)
        except AssertionError as error:
            raise AssertionError(f"{expected} is not reached: {self.state()}") from error
        return self.state()


@dataclass
class Users:
    """Chats of many users, one request each, streamed or not."""

    url: str
    statuses: list[int] = field(default_factory=list)
    running: bool = True

    async def query(self, number: int) -> None:
        async with httpx.AsyncClient(timeout=60) as client:
            while self.running:
                number += USERS
                body = {
                    "model": MODEL,
                    "stream": number % 16 < 8,  # every other
                    "messages": [{"role": "user", "content": f"hello from user {number}"}],
                }
                answer = await client.post(f"{self.url}/v1/chat/completions", json=body)
                failed = '"error"' in answer.text
                self.statuses.append(500 if failed and answer.is_success else answer.status_code)
                await asyncio.sleep(0.01)


@asynccontextmanager
async def canary_site(
    api: Api, folder: Path, stable: ScriptedEngine, canary: ScriptedEngine
) -> AsyncIterator[Site]:
    """Serve the version `first`, beside which others may be applied."""
    with ExitStack() as stack:
        router, first, second = (stack.enter_context(own_address()) for _ in range(3))
        node = stack.enter_context(empty_node(api.cluster))
        operators = stack.enter_context(ExitStack())
        site = Site(api, folder, node, router, first, operators=operators)
        site.versions = {"first": first, "second": second}
        announce(api, router)
        site.apply_version("first")
        site.start_operator()
        site.start_router()
        async with AsyncExitStack() as gateways:
            for engine, address in ((stable, first), (canary, second)):
                gateway = toy_gateway(folder / address, engine)
                await gateways.enter_async_context(
                    serve(gateway, address=address, port=GATEWAY_PORT)
                )
            kubelet = asyncio.create_task(site.play_kubelet())
            try:
                await asyncio.to_thread(inspected, api, MODEL)
                await asyncio.to_thread(built, api)
                await asyncio.to_thread(api.reaches, MODEL, "Ready", "ReplicasAvailable")
                yield site
            finally:
                kubelet.cancel()
                await asyncio.wait({kubelet})
                assert site.router is not None
                end(site.router)


@asynccontextmanager
async def users(site: Site) -> AsyncIterator[Users]:
    all_of_them = Users(site.url)
    async with asyncio.TaskGroup() as group:
        for number in range(USERS):
            group.create_task(all_of_them.query(number))
        try:
            yield all_of_them
        finally:
            all_of_them.running = False


async def test_a_good_version_is_promoted_without_a_failed_request(
    api: Api, tmp_path: Path
) -> None:
    """Its operator is killed on the way, and its successor continues."""
    async with canary_site(api, tmp_path, ScriptedEngine(), ScriptedEngine()) as site:
        async with users(site) as asking:
            await asyncio.to_thread(site.apply_version, "second", pause="3s")
            await site.reaches(phase="Progressing", step=1, weight=40)
            assert site.teams(STABLE) == ["first"]
            assert site.teams(CANARY) == ["second"]
            await asyncio.to_thread(site.kill_operator)
            await asyncio.to_thread(site.start_operator)
            await site.reaches(step=2, weight=60)
            await site.reaches(phase="Promoted", weight=0)
            await eventually_async(lambda: not site.teams(CANARY), pause_seconds=0.5)
        assert site.teams(STABLE) == ["second"]
        assert set(asking.statuses) == {200}
        names = {one["metadata"]["name"] for one in api.read("services")["items"]}
        assert names == {MODEL}


@cases(
    "engine reason",
    {
        "errs": (ScriptedEngine(error=RuntimeError("no")), "ErrorsIncreased"),
        "slow": (SlowEngine(seconds=0.4), "FirstTextSlower"),
    },
)
async def test_a_bad_version_goes_back(
    api: Api, tmp_path: Path, engine: ScriptedEngine, reason: str
) -> None:
    async with canary_site(api, tmp_path, ScriptedEngine(), engine) as site:
        async with users(site) as asking:
            await asyncio.to_thread(site.apply_version, "second")
            back = await site.reaches(phase="RolledBack", weight=0)
            await eventually_async(lambda: not site.teams(CANARY), pause_seconds=0.5)
            before = len(asking.statuses)
            await eventually_async(lambda: len(asking.statuses) > before + 50, pause_seconds=0.2)
            assert set(asking.statuses[before + USERS :]) == {200}
        assert (back["step"], back["reason"]) == (1, reason)
        assert site.teams(STABLE) == ["first"]
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
    async with canary_site(api, tmp_path, ScriptedEngine(), ScriptedEngine()) as site:
        async with users(site) as asking:
            await asyncio.to_thread(site.apply_version, "broken", "8s")
            back = await site.reaches(phase="RolledBack")
        assert back["reason"] == "ProgressDeadlineExceeded"
        assert set(asking.statuses) == {200}
        # A person may take it all the same; the stable one stays until it answers.
        note = f"serving.multimodal.dev/rollout=promote {back['revision']}"
        api.kubectl("annotate", "mmm", MODEL, note)
        await site.reaches(phase="Promoting")
        await eventually_async(lambda: site.teams(STABLE) == ["broken", "first"])
