"""A pod is ready after one image and question went through, and only while Triton is ready."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx
import pytest

from mm_edge.errors import InvalidRequestError
from mm_runtime.gateway.api.openai import ChatRequest
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from mm_runtime.gateway.errors import EngineFailedError, engine_failed
from mm_runtime.gateway.media.video import VideoLimits, read_video
from mm_runtime.gateway.preparation import Preparation
from mm_runtime.gateway.prompts.layout import PromptLayout
from mm_runtime.gateway.warmup import warm_up
from mm_runtime.gateway.warmup.limit_requests import probes
from mm_runtime.gateway.warmup.warm_up import ANY_FAILURES, Failures
from mm_runtime.launch.health import read_warm_up_problem
from mm_runtime.serving.preprocess.processors.prepared import Size
from support.cases import cases
from support.eventually import eventually_async
from support.gateways import FEATURES, MAX_INPUT, Running, serve, toy_gateway
from support.scripted_engine import ScriptedEngine


async def state_of(running: Running) -> tuple[int, dict[str, str]]:
    async with httpx.AsyncClient(base_url=running.url, timeout=60) as client:
        answer = await client.get("/readyz")
        return answer.status_code, answer.json()


async def is_ready(running: Running) -> bool:
    return (await state_of(running))[0] == httpx.codes.OK


async def test_not_ready_before_the_warm_up(tmp_path: Path) -> None:
    """A ready Triton alone is not enough; liveness does not wait for it."""
    async with serve(toy_gateway(tmp_path, ScriptedEngine())) as running:
        assert (await state_of(running))[0] == 503
        async with httpx.AsyncClient(base_url=running.url, timeout=60) as client:
            assert (await client.get("/healthz")).status_code == 200


async def test_ready_after_one_image_and_question(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    gateway = toy_gateway(tmp_path, engine)
    async with serve(gateway) as running:
        watching = asyncio.create_task(gateway.warm_up.watch())
        await eventually_async(partial(is_ready, running))
        assert engine.requests[0].images
        engine.ready = False
        assert (await state_of(running))[0] == 503
        watching.cancel()
        metrics = gateway.metrics.render().decode()
    assert 'mm_requests_total{code="200"' not in metrics


@cases("error", {"fails": EngineFailedError("no"), "closes-the-stream-without-a-token": None})
async def test_a_path_that_fails_stays_unready(tmp_path: Path, error: Exception | None) -> None:
    """It is tried again until it answers."""
    engine = ScriptedEngine(pieces=(), error=error)
    gateway = toy_gateway(tmp_path, engine)
    async with serve(gateway) as running:
        watching = asyncio.create_task(gateway.warm_up.watch())
        await eventually_async(lambda: len(engine.requests) == 2)
        assert (await state_of(running))[0] == 503
        engine.pieces, engine.error = ("a",), None
        await eventually_async(partial(is_ready, running))
        watching.cancel()


MOST_PIXELS = 4_000_000


class Fails(ScriptedEngine):
    """Fails prompts of so many words and more."""

    words = MAX_INPUT // 2

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        self.error = engine_failed() if len(request.prompt.split()) > self.words else None
        async for piece in super().generate(request):
            yield piece


@asynccontextmanager
async def watched(folder: Path, engine: ScriptedEngine) -> AsyncIterator[Running]:
    gateway = toy_gateway(folder, engine)
    async with serve(gateway) as running:
        watching = asyncio.create_task(gateway.warm_up.watch())
        try:
            yield running
        finally:
            watching.cancel()


async def says(running: Running, words: str) -> bool:
    return words in (await state_of(running))[1].get("detail", "")


def phases(running: Running) -> dict[str, float]:
    lines = running.gateway.metrics.render().decode().splitlines()
    found = [line for line in lines if line.startswith("mm_pod_phase{")]
    return {line.split('phase="')[1].split('"')[0]: float(line.split()[-1]) for line in found}


async def test_the_largest_requests_come_before_readiness(tmp_path: Path) -> None:
    """The most images of a plan, a prompt of every token there is, then a question."""
    engine = ScriptedEngine()
    async with watched(tmp_path, engine) as running:
        await eventually_async(partial(is_ready, running))
        most, longest, question = engine.requests[:3]
        phase = phases(running)
        metrics = running.gateway.metrics.render().decode()

    assert len(most.images) == 4
    assert len({image.tobytes() for image in most.images}) == 4
    # One token a word, and `<s>` before them.
    assert len(longest.prompt.split()) + 1 == MAX_INPUT
    assert (longest.images, longest.max_tokens) == ((), 1)
    assert len(question.images) == 1
    assert phase == {"Loading": 0, "WarmingUp": 0, "Ready": 1}
    assert 'mm_requests_accepted_total{model="toy"} 0.0' in metrics
    assert 'mm_prompt_tokens_total{model="toy"} 0.0' in metrics


async def test_a_pod_that_fails_its_longest_prompt_is_not_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It answers everything else, and says in `/readyz` and in its log what fails, once."""
    engine = Fails()
    async with watched(tmp_path, engine) as running:
        failure = f"the longest prompt ({MAX_INPUT} tokens) failed: "
        await eventually_async(partial(says, running, failure))
        await eventually_async(lambda: len(engine.requests) >= 4)
        status, body = await state_of(running)
        phase = phases(running)
        engine.words = MAX_INPUT
        await eventually_async(partial(is_ready, running))

    assert (status, body["phase"]) == (503, "WarmingUp")
    assert phase == {"Loading": 0, "WarmingUp": 1, "Ready": 0}
    assert caplog.text.count(failure) == 1


async def test_a_failure_is_reported_while_the_server_starts_again(tmp_path: Path) -> None:
    """A prompt that ends the server leaves its name in `/readyz`, not only that no one is there."""
    engine = Fails()
    async with watched(tmp_path, engine) as running:
        await eventually_async(partial(says, running, "the longest prompt"))
        engine.ready = False
        await eventually_async(lambda: phases(running)["Loading"] == 1)
        status, body = await state_of(running)

    assert (status, body["phase"]) == (503, "Loading")
    assert "the longest prompt" in body["detail"]


async def test_a_server_that_loads_is_reported(tmp_path: Path) -> None:
    engine = ScriptedEngine(ready=False)
    async with watched(tmp_path, engine) as running:
        await eventually_async(partial(says, running, "Triton is not ready yet"))
        status, body = await state_of(running)
        phase = phases(running)

    assert (status, body["phase"], engine.requests) == (503, "Loading", [])
    assert phase == {"Loading": 1, "WarmingUp": 0, "Ready": 0}


def by_pixels(self: PromptLayout, sizes: Sequence[Size]) -> int:
    """Return rows of a family whose images become more of them the larger they are, up to 100."""
    del self
    return sum(min(100, height * width // 28**2) for height, width in sizes)


def test_the_largest_images_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rows follow from the size: the most, and the most of the most that fit."""
    monkeypatch.setattr(PromptLayout, "rows", by_pixels)
    preparation = preparation_of(tmp_path)

    assert [one.name for one in probes(preparation, most_pixels=MOST_PIXELS)] == [
        "the largest image (448 x 448 pixels)",
        # Four of 100 rows are too many for 256 tokens.
        "the most images (4 of 112 x 112 pixels)",
        f"the longest prompt ({MAX_INPUT} tokens)",
    ]


async def test_a_plans_bound_of_rows_holds_for_its_warm_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image that no client may send is not sent before readiness, either."""
    monkeypatch.setattr(PromptLayout, "rows", by_pixels)
    monkeypatch.setattr(PromptLayout, "rows_are_fixed", False)
    preparation = preparation_of(tmp_path)
    preparation.model = replace(preparation.model, max_features=99)
    sent = list(probes(preparation, most_pixels=MOST_PIXELS))

    assert [one.name for one in sent] == [
        "the largest image (224 x 224 pixels)",
        "the most images (4 of 112 x 112 pixels)",
        f"the longest prompt ({MAX_INPUT} tokens)",
    ]
    await preparation.prepare(sent[0].request)
    # The toy's images come reduced: the largest is 4 rows at the engine.
    preparation.model = replace(preparation.model, max_features=3)
    with pytest.raises(InvalidRequestError, match="become 4 tokens together"):
        await preparation.prepare(sent[0].request)


@cases(
    "rows expected",
    {
        "free": (lambda frames, size: frames * (size[0] // 14), "8 of 224 x 224"),
        "all-alike": (lambda frames, _: frames * 10, "8 of 28 x 28"),
        "as-many-as-fit": (lambda frames, _: frames * 50, "4 of 28 x 28"),
    },
)
def test_the_longest_video_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Callable[[int, Size], int], expected: str
) -> None:
    """Of the planned number of frames, or as many as fit: those that have the most tokens."""
    monkeypatch.setattr(PromptLayout, "text_tokens", lambda *_, **__: 10)
    monkeypatch.setattr(PromptLayout, "video_rows", lambda _, frames, size: rows(frames, size))
    preparation = preparation_of(tmp_path, max_video_frames=8)
    requested = probes(preparation, most_pixels=MOST_PIXELS)
    video = next(one for one in requested if "video" in one.name)
    assert isinstance(video.request, ChatRequest)
    url = video.request.messages[0].content[1].video_url.url
    frames = read_video(url, VideoLimits(10**7, MOST_PIXELS, max_frames=8)).frames

    assert video.name == f"the longest video ({expected} pixels)"
    assert expected == f"{len(frames)} of {frames[0].width} x {frames[0].height}"


def test_a_family_without_videos_gets_no_request_for_one(tmp_path: Path) -> None:
    """A plan that allows frames makes no family take them, and keeps no pod from being ready."""
    preparation = preparation_of(tmp_path, max_video_frames=8)
    names = [one.name for one in probes(preparation, most_pixels=MOST_PIXELS)]
    assert not [name for name in names if "video" in name]
    assert names[-1].startswith("the longest prompt")


def test_images_that_are_all_alike_are_sent_once(tmp_path: Path) -> None:
    """Where each image has the same rows, the question's own is the largest."""
    assert [one.name for one in probes(preparation_of(tmp_path), most_pixels=MOST_PIXELS)] == [
        "the most images (4 of 28 x 28 pixels)",
        f"the longest prompt ({MAX_INPUT} tokens)",
    ]
    assert 4 * FEATURES < MAX_INPUT


def preparation_of(folder: Path, **plan: int) -> Preparation:
    return toy_gateway(folder, ScriptedEngine(), **plan).warm_up.service.preparation


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
        await eventually_async(partial(is_ready, running))
        assert await _problem(running) is None
        watching.cancel()


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
        await eventually_async(lambda: looks > 2 * ANY_FAILURES)
        assert await _problem(running) is None
        watching.cancel()
