"""Before it is ready, a replica measures what a unit of work takes of it."""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import httpx
import pytest

from mm_runtime.gateway.engine import EngineRequest
from mm_runtime.gateway.errors import EngineFailedError
from mm_runtime.gateway.work import Timed, costs_of, probes_of
from support.eventually import eventually
from support.gateways import Running, serve, toy_gateway
from support.scripted_engine import ScriptedEngine

REQUEST, IMAGE, TEXT, OUTPUT = 0.05, 0.001, 0.0002, 0.01


def timed(image_tokens: float, text_tokens: float, output_tokens: float) -> Timed:
    """Return what a replica with known costs would show."""
    seconds = REQUEST + IMAGE * image_tokens + TEXT * text_tokens + OUTPUT * output_tokens
    return Timed(seconds, image_tokens, text_tokens, output_tokens)


def test_costs_are_found_in_the_times() -> None:
    """Four kinds of requests tell the four costs, whatever else was in them."""
    costs = costs_of(
        {
            "request": timed(0, 20, 1),
            "text_token": timed(0, 300, 1),
            "output_token": timed(0, 20, 32),
            "image_token": timed(576, 25, 1),
        }
    )

    expected = {"request": REQUEST, "image_token": IMAGE, "text_token": TEXT}
    assert costs == pytest.approx({**expected, "output_token": OUTPUT})


def test_noise_makes_no_work_that_gives_time_back() -> None:
    """A longer prompt that was quicker costs nothing; without pictures there is no such cost."""
    costs = costs_of(
        {
            "request": Timed(0.05, 0, 20, 1),
            "text_token": Timed(0.04, 0, 300, 1),
            "output_token": Timed(0.05, 0, 20, 1),
        }
    )

    assert costs == {"request": 0.05, "text_token": 0.0, "output_token": 0.0}


def test_probes_fit_the_engine() -> None:
    """Prompts take a few slots and answers all of them; a small engine gets small probes."""
    large = probes_of(slots=64, max_input_len=4096, max_seq_len=8192, pictures=True)
    small = probes_of(slots=2, max_input_len=48, max_seq_len=64, pictures=False)

    assert (large["text_token"].words, large["output_token"].max_tokens) == (256, 32)
    assert (large["request"].at_once, large["output_token"].at_once) == (16, 64)
    assert large["image_token"].images == 1
    assert (small["text_token"].words, small["output_token"].max_tokens) == (12, 16)
    assert set(small) == {"request", "text_token", "output_token"}


async def _readiness(running: Running) -> int:
    async with httpx.AsyncClient(base_url=running.url, timeout=10) as client:
        return (await client.get("/readyz")).status_code


async def _is_ready(running: Running) -> bool:
    return await _readiness(running) == 200


async def test_a_ready_replica_has_measured(tmp_path: Path) -> None:
    """All slots were busy, no request was counted, and the costs are in the metrics."""
    engine = ScriptedEngine()
    gateway = toy_gateway(tmp_path, engine)
    async with serve(gateway) as running:
        watching = asyncio.create_task(gateway.preflight.watch())
        await eventually(partial(_is_ready, running))
        watching.cancel()
    metrics = gateway.metrics.render().decode()

    assert engine.most_running == 2
    for unit in ("request", "image_token", "text_token", "output_token"):
        assert f'mm_work_seconds{{model="toy",unit="{unit}"}}' in metrics
    assert 'mm_requests_accepted_total{model="toy"} 0.0' in metrics
    assert 'mm_requests_running{model="toy"} 0.0' in metrics


async def test_a_replica_that_cannot_be_measured_serves(tmp_path: Path) -> None:
    """Without costs a pod is ready all the same, and tells none."""
    engine = FailsAfterTheProof()
    gateway = toy_gateway(tmp_path, engine)
    async with serve(gateway) as running:
        watching = asyncio.create_task(gateway.preflight.watch())
        await eventually(partial(_is_ready, running))
        watching.cancel()

    assert len(engine.requests) > 1
    assert "mm_work_seconds{" not in gateway.metrics.render().decode()


class FailsAfterTheProof(ScriptedEngine):
    """Answers the first request and no other."""

    async def generate(self, request: EngineRequest) -> AsyncGenerator[str, None]:
        """Answer from the script, once."""
        self.error = EngineFailedError("no") if self.requests else None
        async for piece in super().generate(request):
            yield piece
