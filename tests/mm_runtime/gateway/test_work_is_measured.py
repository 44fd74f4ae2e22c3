"""A ready replica measures what a unit of work takes of it while no client comes."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from mm_runtime.gateway.phase import Phase
from mm_runtime.gateway.warmup import quiet, work
from mm_runtime.gateway.warmup.costs import Timed, costs_of
from mm_runtime.gateway.warmup.work import probes_of
from mm_runtime.gateway.wiring import Gateway
from support.cases import cases
from support.eventually import eventually_async
from support.gateways import toy_gateway
from support.scripted_engine import ScriptedEngine

ROUND = 8
"""Requests of four probes at two slots."""
BEFORE = 3
"""The most images, the longest prompt, the question that is answered."""
REQUEST, IMAGE, TEXT, OUTPUT = 0.05, 0.001, 0.0002, 0.01


def timed(image_tokens: float, text_tokens: float, output_tokens: float) -> Timed:
    seconds = REQUEST + IMAGE * image_tokens + TEXT * text_tokens + OUTPUT * output_tokens
    return Timed(seconds, image_tokens, text_tokens, output_tokens)


PROBES = {
    "request": timed(0, 20, 1),
    "text_token": timed(0, 300, 1),
    "output_token": timed(0, 20, 32),
    "image_token": timed(576, 25, 1),
}
COSTS = {"request": REQUEST, "image_token": IMAGE, "text_token": TEXT, "output_token": OUTPUT}


def rounds(**factors: tuple[float, ...]) -> dict[str, list[Timed]]:
    """Return five rounds of every probe; those named took so many times as long as they take."""
    return {
        name: [
            replace(probe, seconds=factor * probe.seconds)
            for factor in factors.get(name, (1.0,) * 5)
        ]
        for name, probe in PROBES.items()
    }


def test_costs_are_found_in_the_times() -> None:
    """Four kinds of requests report the four costs, whatever else was in them."""
    costs = costs_of(rounds())

    assert costs.seconds == pytest.approx(COSTS)
    assert costs.refused == {}


@cases(
    "factors",
    {
        "the-first-two-waited": (20.0, 18.0, 1.0, 1.0, 1.0),
        "one-was-too-quick": (1.0, 1.0, 0.1, 1.0, 1.0),
        "one-of-each": (0.1, 1.0, 1.0, 1.0, 20.0),
    },
)
@pytest.mark.parametrize("probe", PROBES)
def test_outliers_change_no_cost(probe: str, factors: tuple[float, ...]) -> None:
    """Two rounds of five may be wrong by any factor, either way, in any probe or in all."""
    assert costs_of(rounds(**{probe: factors})).seconds == pytest.approx(COSTS)
    assert costs_of(rounds(**dict.fromkeys(PROBES, factors))).seconds == pytest.approx(COSTS)


def test_noise_is_no_cost() -> None:
    """A longer prompt that was quicker, and an image that took no time, are refused by message."""
    costs = costs_of(rounds(text_token=(0.5,) * 5, image_token=(0.01,) * 5))

    assert set(costs.seconds) == {"request", "output_token"}
    assert set(costs.refused) == {"text_token", "image_token"}
    assert "in longer prompts" in costs.refused["text_token"]
    assert costs.refused["image_token"].startswith("-")


def test_a_request_that_costs_nothing_is_refused() -> None:
    """Tokens that explain more than all of a short request leave no cost of its own."""
    costs = costs_of(rounds(output_token=(10.0,) * 5))

    assert set(costs.refused) == {"request"}


def test_work_that_no_probe_varies_has_no_cost() -> None:
    """A model of audio clips has one kind of request: neither a cost of text nor a refused one."""
    same = [Timed(0.05, 0, 4, 1)] * 5
    costs = costs_of({"request": same, "text_token": same, "output_token": same})

    assert (dict(costs.seconds), dict(costs.refused)) == ({"request": 0.05}, {})


def test_probes_fit_the_engine() -> None:
    """Prompts take a few slots and answers all of them; a small engine gets small probes."""
    large = probes_of(slots=64, max_input_len=4096, max_seq_len=8192, images=True)
    small = probes_of(slots=2, max_input_len=48, max_seq_len=64, images=False)

    assert (large["text_token"].words, large["output_token"].max_tokens) == (256, 32)
    assert (large["request"].at_once, large["output_token"].at_once) == (16, 64)
    assert large["image_token"].images == 1
    assert (small["text_token"].words, small["output_token"].max_tokens) == (12, 16)
    assert set(small) == {"request", "text_token", "output_token"}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any moment without a request is quiet, and nothing waits after one."""
    monkeypatch.setattr(quiet, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(quiet, "PAUSE_SECONDS", 0.0)


@asynccontextmanager
async def measuring(gateway: Gateway) -> AsyncIterator[asyncio.Task[None]]:
    """Warm a gateway up; yield its measurement, which has time to end by itself."""
    watching = asyncio.create_task(gateway.warm_up.watch())
    task = asyncio.create_task(gateway.measure_work())
    try:
        async with asyncio.timeout(120):
            yield task
    finally:
        for one in (watching, task):
            one.cancel()


def page(gateway: Gateway) -> str:
    return gateway.metrics.render().decode()


async def test_a_ready_replica_measures(tmp_path: Path) -> None:
    """A batch is busy, none waits behind it or counts as load, and the metrics have the costs."""
    engine = ScriptedEngine()
    gateway = toy_gateway(tmp_path, engine, max_concurrency=6)
    async with measuring(gateway) as task:
        await gateway.warm_up.first_ready()
        loads: list[int] = []
        gateway.admission.load.observers.append(lambda load: loads.append(load.running))
        await task
    metrics = page(gateway)

    assert engine.most_running == 4
    for unit in ("request", "image_token", "text_token", "output_token"):
        assert f'mm_work_seconds{{model="toy",unit="{unit}"}}' in metrics
    assert 'mm_requests_accepted_total{model="toy"} 0.0' in metrics
    assert loads == []


async def test_readiness_does_not_wait_for_it(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    gateway = toy_gateway(tmp_path, engine)
    watching = asyncio.create_task(gateway.warm_up.watch())
    await gateway.warm_up.first_ready()
    watching.cancel()

    assert (await gateway.warm_up.state())[0] is Phase.READY
    assert "mm_work_seconds{" not in page(gateway)


async def test_nothing_is_measured_beside_a_client(tmp_path: Path) -> None:
    """A client that comes ends what runs, and finds every slot; the costs come when it has gone."""
    engine = ScriptedEngine()
    gateway = toy_gateway(tmp_path, engine)
    async with measuring(gateway) as task:
        await gateway.warm_up.first_ready()
        engine.gate = asyncio.Event()  # answers of more than a token never end
        await eventually_async(lambda: engine.running == 2)
        with gateway.admission.admit(2):
            await eventually_async(lambda: engine.running == 0)
            async with gateway.admission.slot(), gateway.admission.slot():
                engine.gate = None
                before = len(engine.requests)
                await asyncio.sleep(0.05)
                assert len(engine.requests) == before
                assert "mm_work_seconds{" not in page(gateway)
        await task

    assert engine.cancelled == 2
    assert "mm_work_seconds{" in page(gateway)


@cases(
    "answered reported",
    {
        "nothing": (BEFORE, False),
        "two-rounds": (BEFORE + 2 * ROUND, False),
        "three-rounds": (BEFORE + 3 * ROUND, True),
    },
)
async def test_what_was_measured_in_time_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answered: int, *, reported: bool
) -> None:
    """Three full rounds give the costs; with fewer a pod serves all the same and reports none."""
    monkeypatch.setattr(work, "_ENOUGH_SECONDS", inf)  # a busy machine would not begin the fourth
    engine = SilentAfter(answered)
    gateway = toy_gateway(tmp_path, engine)
    async with measuring(gateway) as task:
        await task

    assert len(engine.requests) > answered
    assert ("mm_work_seconds{" in page(gateway)) == reported


async def test_a_slow_replica_measures_three_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients may come at any moment: what is left out keeps none of them waiting."""
    monkeypatch.setattr(work, "_ENOUGH_SECONDS", 0.0)
    engine = ScriptedEngine()
    gateway = toy_gateway(tmp_path, engine)
    async with measuring(gateway) as task:
        await task

    assert len(engine.requests) == BEFORE + 3 * ROUND
    assert "mm_work_seconds{" in page(gateway)


class SilentAfter(ScriptedEngine):
    """Answers so many requests; the next ones end as if the time for all of them was over."""

    def __init__(self, answered: int) -> None:
        super().__init__()
        self._answered = answered

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        self.error = TimeoutError() if len(self.requests) >= self._answered else None
        async for piece in super().generate(request):
            yield piece
