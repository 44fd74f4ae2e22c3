"""A pod is ready after one image and question went through, and only while Triton is ready."""

import asyncio
from functools import partial
from pathlib import Path

import httpx
import pytest

from mm_runtime.base import early_probes
from mm_runtime.gateway.errors import EngineFailedError
from support.cases import cases
from support.eventually import eventually_async
from support.gateways import Running, serve, toy_gateway
from support.scripted_engine import ScriptedEngine


async def _status(running: Running) -> int:
    async with httpx.AsyncClient(base_url=running.url, timeout=60) as client:
        return (await client.get("/readyz")).status_code


async def _is_ready(running: Running) -> bool:
    return await _status(running) == 200


async def test_not_ready_before_the_warm_up(tmp_path: Path) -> None:
    """A ready Triton alone is not enough; liveness does not wait for it."""
    async with serve(toy_gateway(tmp_path, ScriptedEngine())) as running:
        assert await _status(running) == 503
        async with httpx.AsyncClient(base_url=running.url, timeout=60) as client:
            assert (await client.get("/healthz")).status_code == 200


async def test_ready_after_one_image_and_question(tmp_path: Path) -> None:
    """The warm-up sends an image, and readiness follows its answer."""
    engine = ScriptedEngine()
    gateway = toy_gateway(tmp_path, engine)
    async with serve(gateway) as running:
        watching = asyncio.create_task(gateway.warm_up.watch())
        await eventually_async(partial(_is_ready, running))
        assert engine.requests[0].images
        engine.ready = False
        assert await _status(running) == 503
        watching.cancel()
        metrics = gateway.metrics.render().decode()
    assert 'mm_requests_total{code="200"' not in metrics


async def test_a_kubelets_early_probe_waits_for_the_first_readiness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It need not come again a period later; a pod that is no longer ready says so at once."""
    monkeypatch.setattr(early_probes, "HOLD_SECONDS", 3600.0)
    engine = ScriptedEngine()
    gateway = toy_gateway(tmp_path, engine)
    kubelet = {"user-agent": "kube-probe/1.36"}
    async with (
        asyncio.timeout(120),
        serve(gateway) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60, headers=kubelet) as client,
    ):
        assert await _status(running) == 503
        early = asyncio.create_task(client.get("/readyz"))
        watching = asyncio.create_task(gateway.warm_up.watch())
        assert (await early).status_code == 200
        engine.ready = False
        assert (await client.get("/readyz")).status_code == 503
        watching.cancel()


@cases("error", {"fails": EngineFailedError("no"), "closes-the-stream-without-a-token": None})
async def test_a_path_that_fails_stays_unready(tmp_path: Path, error: Exception | None) -> None:
    """It is tried again until it answers."""
    engine = ScriptedEngine(pieces=(), error=error)
    gateway = toy_gateway(tmp_path, engine)
    async with serve(gateway) as running:
        watching = asyncio.create_task(gateway.warm_up.watch())
        await eventually_async(lambda: len(engine.requests) == 2)
        assert await _status(running) == 503
        engine.pieces, engine.error = ("a",), None
        await eventually_async(partial(_is_ready, running))
        watching.cancel()
