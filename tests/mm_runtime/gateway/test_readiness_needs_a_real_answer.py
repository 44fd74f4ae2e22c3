"""A pod is ready after one image and question went through, and only while Triton is ready."""

import asyncio
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import pytest

from mm_api.documents.engine_manifest import EngineManifest, GoldenPrompt
from mm_runtime.base import early_probes
from mm_runtime.gateway.errors import EngineFailedError
from mm_runtime.gateway.wiring import Gateway, build_gateway
from mm_runtime.serving.preprocess.audio.tones import sample_audio
from support.eventually import eventually_async
from support.gateways import (
    Running,
    serve,
    toy_gateway,
    toy_manifest,
    toy_serving,
    write_processor,
)
from support.real_gateway import RealGateway
from support.scripted_engine import ScriptedEngine
from support.tiny_llava import BuiltEngine

GOLDEN = GoldenPrompt(text="What is it?", images=1, tokens=[7, 8], answer="a red")
WITHOUT_IMAGES = GOLDEN.model_copy(update={"images": 0})
OF_AN_AUDIO_CLIP = WITHOUT_IMAGES.model_copy(update={"audio_clips": 1})


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


async def test_a_path_that_fails_stays_unready(tmp_path: Path) -> None:
    """An engine that answers with an error is tried again until it answers."""
    engine = ScriptedEngine(pieces=(), error=EngineFailedError("no"))
    gateway = toy_gateway(tmp_path, engine)
    async with serve(gateway) as running:
        watching = asyncio.create_task(gateway.warm_up.watch())
        await eventually_async(lambda: len(engine.requests) == 2)
        assert await _status(running) == 503
        engine.pieces, engine.error = ("a",), None
        await eventually_async(partial(_is_ready, running))
        watching.cancel()


async def test_an_answer_without_a_token_is_no_proof(tmp_path: Path) -> None:
    """A server that closes the stream with nothing in it is not ready."""
    engine = ScriptedEngine(pieces=())
    gateway = toy_gateway(tmp_path, engine)
    async with serve(gateway) as running:
        watching = asyncio.create_task(gateway.warm_up.watch())
        await eventually_async(lambda: len(engine.requests) == 2)
        assert await _status(running) == 503
        watching.cancel()


def golden_gateway(folder: Path, engine: ScriptedEngine, golden: GoldenPrompt) -> Gateway:
    """Return a gateway of an engine that has answered a question when it was built."""
    write_processor(folder)
    return build_gateway(
        manifest=toy_manifest().model_copy(update={"golden": golden}),
        serving=toy_serving(),
        engine_dir=folder,
        engine=engine,
        auth_token_file=None,
    )


@pytest.mark.parametrize(
    "golden",
    [
        pytest.param(GOLDEN, id="image"),
        pytest.param(WITHOUT_IMAGES, id="text"),
        pytest.param(OF_AN_AUDIO_CLIP, id="audio"),
    ],
)
async def test_the_golden_prompt_is_answered_as_at_the_build(
    tmp_path: Path, golden: GoldenPrompt
) -> None:
    """An engine that answers otherwise than when it was built is not ready, and both are shown."""
    engine = ScriptedEngine(pieces=("a", " blue"))
    gateway = golden_gateway(tmp_path, engine, golden)
    async with serve(gateway) as running:
        watching = asyncio.create_task(gateway.warm_up.watch())

        async def reported() -> bool:
            async with httpx.AsyncClient(base_url=running.url, timeout=60) as client:
                detail = (await client.get("/readyz")).json().get("detail", "")
            return "the answer is 'a blue'; when the engine was built it was 'a red'" in detail

        await eventually_async(reported)
        assert await _status(running) == 503
        engine.pieces = ("a", " red", " square")
        await eventually_async(partial(_is_ready, running))
        watching.cancel()

    requested = [one for one in engine.requests if one.prompt == GOLDEN.text]
    assert {(len(one.images), one.max_tokens, one.sampling.temperature) for one in requested} == {
        (golden.images, 2, 0)
    }
    for one in requested:
        received = one.audio is not None and np.array_equal(one.audio, sample_audio())
        assert received == (golden.audio_clips == 1)


def test_a_question_without_an_audio_clip_is_written_as_before() -> None:
    """Manifests from before audio was sent are read, and written byte by byte as they were."""
    written = '{"text":"What is it?","pictures":1,"tokens":[7,8],"answer":"a red"}'
    assert GoldenPrompt.from_json(written) == GOLDEN
    assert written == GOLDEN.to_json()


@pytest.mark.triton
@pytest.mark.timeout(600)
def test_a_real_engine_answers_as_at_its_build(real: RealGateway, tiny_engine: BuiltEngine) -> None:
    """The build of the tiny model has kept a full answer, and its pod, which is ready, gave it."""
    golden = EngineManifest.from_json(tiny_engine.manifest.read_bytes()).golden

    assert golden is not None
    assert (golden.images, len(golden.tokens)) == (1, 8)
    assert golden.answer.startswith("a ")
    ready = httpx.get(f"{real.url}/readyz", timeout=60)
    assert ready.json() == {"status": "ready", "phase": "Ready"}
