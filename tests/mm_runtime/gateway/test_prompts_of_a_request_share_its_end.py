"""Several prompts in a completion: nothing is generated of a bad request, or after its end."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest

from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from mm_runtime.gateway.backends.merged import merged
from mm_runtime.gateway.errors import EngineFailedError
from mm_runtime.gateway.prompts.layout import PromptLayout
from support.cases import cases
from support.eventually import eventually_async
from support.gateways import MODEL, client_of, serve, toy_gateway
from support.scripted_engine import ScriptedEngine

PATH = "/v1/completions"
BODY: dict[str, Any] = {"model": MODEL, "prompt": ["a", "b", "c"], "n": 2, "max_tokens": 9}
LIMITS = {"max_concurrency": 4, "max_queue_size": 4}
"""Fewer slots than answers: some wait while others are generated."""


async def test_a_client_that_leaves_ends_all(tmp_path: Path) -> None:
    """Those that are generated, and those that wait for a slot."""
    engine = ScriptedEngine(gate=asyncio.Event())
    async with (
        serve(toy_gateway(tmp_path, engine, **LIMITS)) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):
        async with client.stream("POST", PATH, json={**BODY, "stream": True}) as answer:
            await anext(answer.aiter_lines())
            await eventually_async(lambda: engine.running == LIMITS["max_concurrency"])
            assert running.gateway.admission.inside == 6
        await eventually_async(lambda: running.gateway.admission.inside == 0)
        assert (engine.running, engine.cancelled, len(engine.requests)) == (0, 4, 4)


async def test_a_client_that_stops_reading_and_leaves_ends_all() -> None:
    """Each answer waits for a place in what is to be sent when the request ends."""
    ended = []

    async def generated(number: int) -> AsyncGenerator[int, None]:
        try:
            while True:
                yield number
        finally:
            ended.append(number)

    events = merged([generated(0), generated(1)])
    await anext(events)
    async with asyncio.timeout(10):
        await events.aclose()
    assert sorted(ended) == [0, 1]


async def test_a_failure_ends_the_others(tmp_path: Path) -> None:
    """The client has one error, and no place stays taken."""

    class Breaks(ScriptedEngine):
        """Fails at the second prompt, while others wait in the midst of theirs."""

        async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
            if request.prompt.endswith("b"):
                await eventually_async(lambda: self.running > 0)
                raise EngineFailedError("It broke.", code="engine_error")
            async with aclosing(super().generate(request)) as events:
                async for event in events:
                    yield event

    engine = Breaks(gate=asyncio.Event())
    async with (
        serve(toy_gateway(tmp_path, engine, **LIMITS)) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):
        answer = await client.post(PATH, json=BODY)
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "engine_error")
        await eventually_async(lambda: running.gateway.admission.inside == 0)
        assert (engine.running, engine.cancelled) == (0, len(engine.requests))


@cases(
    "fields param",
    {
        "image": ({"prompt": ["a", "b", "<image>"]}, "prompt[2]"),
        "too-long": ({"prompt": ["a", "b " * 300]}, "prompt[1]"),
        "places": ({"prompt": ["a"] * 9, "n": 1}, "prompt"),
    },
)
async def test_nothing_of_a_bad_request_is_sent(
    tmp_path: Path, fields: dict[str, Any], param: str
) -> None:
    engine = ScriptedEngine()
    gateway = toy_gateway(tmp_path, engine, **LIMITS)
    async with client_of(gateway) as client:
        answer = await client.post(PATH, json={**BODY, **fields})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
        assert not engine.requests
        await eventually_async(lambda: gateway.admission.inside == 0)


async def test_others_have_their_turns_between_two_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tokens of each are counted in up to ten milliseconds."""
    turns, counted, count = 0, list[int](), PromptLayout.text_tokens

    async def tick() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def counting(*values: Any, **named: Any) -> int:
        counted.append(turns)
        return count(*values, **named)

    monkeypatch.setattr(PromptLayout, "text_tokens", counting)
    async with client_of(toy_gateway(tmp_path, ScriptedEngine(), **LIMITS)) as client:
        ticking = asyncio.create_task(tick())
        await client.post(PATH, json=BODY)
        ticking.cancel()
    assert len(set(counted)) == len(counted) == 3


async def test_what_is_counted(tmp_path: Path) -> None:
    """Places and ids of each answer are its own; a prompt's tokens count once."""
    engine = ScriptedEngine()
    async with client_of(toy_gateway(tmp_path, engine, **LIMITS)) as client:
        answer = (await client.post(PATH, json={**BODY, "seed": 5})).json()
        page = (await client.get("/metrics")).text
    assert answer["usage"] == {"prompt_tokens": 6, "completion_tokens": 18, "total_tokens": 24}
    assert len({request.request_id for request in engine.requests}) == 6
    seeds = sorted((request.prompt, request.sampling.seed) for request in engine.requests)
    assert seeds == [(f"<s>{text}", seed) for text in "abc" for seed in (5, 6)]
    for name, count in (("prompt", 6), ("output", 18)):
        assert re.search(rf"^mm_{name}_tokens_total\{{.*\}} {count}\.0$", page, re.MULTILINE)
