"""Chats that the stable revision answered are replayed on both, beside clients, and forgotten."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from mm_api.documents.router_state import Pairs, RouterState
from mm_router import replays
from mm_router.catalog import Canary, Model, ReplayLimits
from mm_router.replays import replayed
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from support.cases import cases
from support.eventually import eventually_async
from support.gateways import MODEL, serve, toy_gateway
from support.images import data_url, encode, plain_image
from support.routers import RunningRouter, address_of, route
from support.scripted_engine import ScriptedEngine

LABEL = f"blue/{MODEL}"
BLUE = Model(
    "blue", MODEL, canary=Canary("f" * 64, 1, 1, replay=ReplayLimits(("text", "image"), 600, 2))
)
IMAGE = {"type": "image_url", "image_url": {"url": data_url(encode(plain_image()))}}
SECRET = "nobodyshallreadthis"


class BlindEngine(ScriptedEngine):
    """Answers otherwise where there is an image."""

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        self.pieces = ("other",) if request.images else ("a", " red")
        async for one in super().generate(request):
            yield one


@dataclass
class Site:
    """A router in front of a stable replica and one of a canary that has next to no chats."""

    router: RunningRouter
    client: httpx.AsyncClient
    urls: tuple[str, str]

    def count(self, result: str, requests: str = "text") -> float:
        labels = {"model": LABEL, "requests": requests, "result": result}
        return self.router.count("mm_router_replays_total", **labels)

    async def chat(self, *parts: Any, headers: Any = None, **fields: Any) -> None:
        content = [{"type": "text", "text": SECRET}, *parts]
        body = {"model": MODEL, "messages": [{"role": "user", "content": content}], **fields}
        answer = await self.client.post("/v1/chat/completions", json=body, headers=headers)
        assert answer.status_code == 200


@asynccontextmanager
async def site(folder: Path, canary: ScriptedEngine) -> AsyncIterator[Site]:
    async with (
        serve(toy_gateway(folder / "stable", ScriptedEngine())) as first,
        serve(toy_gateway(folder / "canary", canary)) as second,
        route({BLUE: [address_of(first)]}) as router,
        httpx.AsyncClient(base_url=router.url, timeout=60) as client,
    ):
        router.router.fleet.set_replicas(
            router.router.fleet.revisions(BLUE)[1], [address_of(second)]
        )
        yield Site(router, client, (first.url, second.url))


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


async def test_modalities_are_compared_apart(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a canary answers otherwise for images alone is seen; nothing else of a chat is."""
    monkeypatch.chdir(tmp_path)
    engine = BlindEngine()
    async with site(tmp_path, engine) as both:
        written = files(tmp_path)
        await both.chat(stream=True, temperature=1.5, max_tokens=9, user="someone")
        await eventually_async(lambda: both.count("agreed") == 1)
        await both.chat(IMAGE)
        await eventually_async(lambda: both.count("differed", "image") == 1)
        state = RouterState.from_json(both.router.router.fleet.state([])).canaries[LABEL]
        assert (state.text_answers, state.image_answers) == (Pairs(equal=1), Pairs(worse=1))
        replay = engine.requests[0]
        assert (replay.sampling.temperature, replay.max_tokens) == (0, 2)
        counted = f'mm_requests_total{{code="200",model="{MODEL}"}} '
        first, second = [(await both.client.get(f"{url}/metrics")).text for url in both.urls]
        assert f"{counted}2.0" in first
        assert counted not in second
        assert both.router.count("mm_router_requests_total", model=LABEL, code="200") == 2
        assert files(tmp_path) == written
    said = "".join(capfd.readouterr())
    assert SECRET not in said
    assert "red" not in said


async def test_replays_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One at a time, ten a second here, none larger than the bound or marked by its client."""
    engine = ScriptedEngine(gate=asyncio.Event())
    async with site(tmp_path, engine) as both:
        for one in ({"idempotency-key": "1"}, {"cache-control": "private, no-store"}):
            await both.chat(headers=one)
        for _ in range(5):
            await both.chat(headers={"x-multimodal-replay": "1"})
        await eventually_async(lambda: engine.running == 1)
        await asyncio.sleep(0.2)
        await both.chat()
        assert engine.gate is not None
        engine.gate.set()
        await eventually_async(lambda: both.count("agreed") == 1)
        monkeypatch.setattr(replays, "_MOST_BYTES", 10)
        await asyncio.sleep(0.2)
        await both.chat()
        await both.router.router.replays.close()
        assert len(engine.requests) == 1


@cases(
    "content more",
    {
        "address": ([{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}], {}),
        "recording": ([{"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}], {}),
        "calls": (None, {}),
        "tools": ("hello", {"tools": []}),
        "salted": ("hello", {"cache_salt": "x"}),
    },
)
def test_what_would_be_done_twice_is_not_replayed(content: Any, more: dict[str, Any]) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": content}], **more}
    assert replayed(json.dumps(body).encode(), 8) is None
