"""A warm-up that fails for the same reason each time is reported as failed, until it passes."""

import asyncio
from functools import partial
from pathlib import Path

import httpx
import pytest

from mm_runtime.gateway.errors import EngineFailedError
from mm_runtime.gateway.warmup import warm_up
from mm_runtime.gateway.warmup.failures import ANY, Failures
from mm_runtime.launch.evaluation import read_warm_up_problem
from support.cases import cases
from support.eventually import eventually_async
from support.gateways import Running, serve, toy_gateway
from support.scripted_engine import ScriptedEngine


@cases(
    "failures expected",
    {
        "twice": (["a", "a"], ""),
        "three-times": (["a", "a", "a"], "a"),
        "others-between": (["a", "b", "a", "b", "a"], ""),
        "ten-of-two": (["a", "b"] * 5, "b"),
        "never-alike": ([f"answer {number}" for number in range(30)], "answer 9"),
        "another-begins": (["a", "a", "a", "b", "b"], "a"),
        "another-stays": (["a", "a", "a", "b", "b", "b"], "b"),
        "ports-do-not-count": (
            [f"dial tcp 10.0.0.1:{port}: refused" for port in (1, 2, 3)],
            "dial tcp: refused",
        ),
    },
)
def test_when_a_warm_up_has_failed(failures: list[str], expected: str) -> None:
    """Three alike in a row, or ten of any words; the reported words change rarely."""
    found = Failures()
    for words in failures:
        found.add(words)
    assert found.problem == expected


async def _problem(running: Running) -> str | None:
    url = httpx.URL(running.url)
    return await asyncio.to_thread(read_warm_up_problem, str(url.host), int(url.port or 0))


async def test_a_warm_up_that_always_fails_says_why(tmp_path: Path) -> None:
    """The supervisor of the server reads it from `/readyz`; nothing is left once it passes."""
    engine = ScriptedEngine(pieces=(), error=EngineFailedError("'strftime_now' is undefined"))
    async with serve(gateway := toy_gateway(tmp_path, engine)) as running:
        assert await _problem(running) is None
        watching = asyncio.create_task(gateway.warm_up.watch())

        async def failed() -> bool:
            said = await _problem(running)
            return said is not None and said.endswith("failed: 'strftime_now' is undefined")

        await eventually_async(failed)
        engine.pieces, engine.error = ("a",), None
        await eventually_async(partial(_passed, running))
        assert await _problem(running) is None
        watching.cancel()


async def _passed(running: Running) -> bool:
    async with httpx.AsyncClient(base_url=running.url, timeout=60) as client:
        return (await client.get("/readyz")).status_code == 200


async def test_a_server_that_loads_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While Triton is away nothing is warmed up, however often it is looked at."""
    looks = 0

    async def away() -> bool:
        nonlocal looks
        looks += 1
        return False

    engine = ScriptedEngine()
    monkeypatch.setattr(engine, "is_ready", away)
    monkeypatch.setattr(warm_up, "_RETRY_SECONDS", 0.01)
    gateway = toy_gateway(tmp_path, engine)
    async with serve(gateway) as running:
        watching = asyncio.create_task(gateway.warm_up.watch())
        await eventually_async(lambda: looks > 2 * ANY)
        assert await _problem(running) is None
        watching.cancel()
