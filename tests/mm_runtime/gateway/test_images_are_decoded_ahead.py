"""An image is decoded while the rest of its request is checked, at no other request's expense."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mm_edge.body_budget import BodyBudget
from mm_edge.errors import InvalidRequestError, OverloadedError
from mm_runtime.gateway.media import images
from mm_runtime.gateway.media.decoding.pool import Decoders, Found, Run
from mm_runtime.gateway.media.decoding.process import DecoderLimits
from mm_runtime.gateway.media.images import ImageReference
from support import breaking_jobs
from support.cases import cases
from support.ended import is_gone
from support.eventually import eventually_async
from support.gateways import MODEL, client_of, toy_gateway
from support.http_servers import Exchange, serve_local
from support.image_loaders import image_loader
from support.images import RED, data_url, encode, plain_image
from support.scripted_engine import ScriptedEngine
from support.unreduced import UNREDUCED

TESTS = Path(__file__).parents[2]
IMAGE = [ImageReference(data_url(encode(plain_image())), "messages[0]")]
DAMAGED = encode(plain_image())[:-30]
DEADLINE = 60.0


@pytest.fixture
async def decoders(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Decoders]:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    one = Decoders(1, DecoderLimits(memory_bytes=512 << 20, wall_seconds=120))
    one.start()
    yield one
    one.close()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    job = partial(breaking_jobs.held, str(tmp_path))
    monkeypatch.setattr(images, "image_job", lambda *_, **__: job)
    return tmp_path


async def _process_of(decoders: Decoders) -> int:
    found = await decoders.through(lambda run: run(breaking_jobs.process, b"", 60))
    return int(found.array.view(np.uint32)[0])


async def test_the_decoder_works_beside_the_block(decoders: Decoders, held: Path) -> None:
    """It begins by itself; its pixels are those of the request, and are known from then on."""
    loader = image_loader(decoders)
    async with loader.ahead(IMAGE, [UNREDUCED]) as load:
        await eventually_async((held / "begun").exists)
        (held / "end").touch()
        (pixels,) = await load()
    assert tuple(pixels[0, 0]) == RED
    async with loader.ahead(IMAGE, [UNREDUCED]) as load:
        assert (await load())[0] is pixels


async def test_a_refusal_leaves_the_decoder(decoders: Decoders, held: Path) -> None:
    """It is the block's own, and the decoder is not ended: another would start for a second."""
    before = await _process_of(decoders)

    async def refused() -> None:
        async with image_loader(decoders).ahead(IMAGE, [UNREDUCED]):
            await eventually_async((held / "begun").exists)
            raise InvalidRequestError("the text is too long")

    refusing = asyncio.create_task(refused())
    await eventually_async((held / "begun").exists)
    assert not decoders.free
    (held / "end").touch()
    with pytest.raises(InvalidRequestError, match="too long"):
        await refusing
    assert decoders.free
    assert await _process_of(decoders) == before


async def test_a_client_that_leaves_frees_the_decoder(decoders: Decoders, held: Path) -> None:
    """What it has begun is ended at once, whether its pixels are waited for or not yet."""
    for waits in (False, True):
        (held / "begun").unlink(missing_ok=True)
        (before,) = decoders.pids

        async def requested(*, waits: bool = waits) -> None:
            async with image_loader(decoders).ahead(IMAGE, [UNREDUCED]) as load:
                await (load() if waits else asyncio.Event().wait())

        leaving = asyncio.create_task(requested())
        await eventually_async((held / "begun").exists)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert decoders.free
        await eventually_async(partial(is_gone, before))
        await eventually_async(lambda: len(decoders.pids) == 1)
    (held / "end").touch()
    assert await image_loader(decoders).load(IMAGE, [UNREDUCED])


async def test_no_turn_is_taken(decoders: Decoders, held: Path) -> None:
    """Where the decoder is busy an image waits until its request is checked."""
    loader, other = image_loader(decoders), [ImageReference(data_url(DAMAGED), "messages[0]")]
    first = asyncio.create_task(loader.load(IMAGE, [UNREDUCED]))
    await eventually_async((held / "begun").exists)
    async with loader.ahead(other, [UNREDUCED]) as load:
        second = asyncio.create_task(loader.load(IMAGE, [UNREDUCED]))
        await asyncio.sleep(0)
        third = asyncio.ensure_future(load())
        (held / "end").touch()
        done: list[str] = []
        for name, one in (("first", first), ("second", second), ("third", third)):
            one.add_done_callback(lambda _, name=name: done.append(name))
        async with asyncio.timeout(DEADLINE):
            await asyncio.wait({first, second, third})
    await asyncio.sleep(0)
    assert done == ["first", "second", "third"]


async def test_no_host_is_called_for_a_request_that_may_be_refused(decoders: Decoders) -> None:
    """A URL is fetched when the block has checked everything."""
    called = 0

    async def answer(exchange: Exchange) -> None:
        nonlocal called
        called += 1
        await exchange.answer(200, encode(plain_image()))

    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve_local(answer))
        fetched = [ImageReference(f"http://localhost:{server.port}/", "messages")]
        async with image_loader(decoders).ahead(fetched, [UNREDUCED]) as load:
            await asyncio.sleep(0.1)
            before = called
            (pixels,) = await load()
    assert (before, called) == (0, 1)
    assert tuple(pixels[0, 0]) == RED


def _request(text: str, image: bytes, **fields: object) -> dict[str, Any]:
    url = {"type": "image_url", "image_url": {"url": data_url(image)}}
    content = [{"type": "text", "text": text}, url]
    return {"model": MODEL, "messages": [{"role": "user", "content": content}], **fields}


@cases(
    "body code",
    {
        "text": (_request("what ? " * 300, DAMAGED), "context_length_exceeded"),
        "control token": (_request("what </s> ?", DAMAGED), "control_token"),
        "image": (_request("what ?", DAMAGED), "invalid_image"),
    },
)
async def test_refusals_keep_their_order(tmp_path: Path, body: dict[str, Any], code: str) -> None:
    """What the text is refused for comes first, and nothing is sent to the engine."""
    engine = ScriptedEngine()
    gateway = toy_gateway(tmp_path, engine)
    async with client_of(gateway) as client:
        before = gateway.bodies._left
        answer = await client.post("/v1/chat/completions", json=body)
        assert gateway.bodies._left == before
        assert gateway.decoders.free
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
    assert not engine.requests


FETCHED_IMAGE = encode(plain_image())


class _Watched(Decoders):
    """Queries the budget for one more byte whenever an image is about to be decoded."""

    def __init__(self, bodies: BodyBudget) -> None:
        super().__init__(1, DecoderLimits(memory_bytes=512 << 20, wall_seconds=60))
        self._bodies = bodies
        self.refused = 0

    async def through(self, work: Callable[[Run], Awaitable[Found]]) -> Found:
        try:
            self._bodies.reserve(1, 0)
        except OverloadedError:
            self.refused += 1
        return await super().through(work)


async def _image(exchange: Exchange) -> None:
    await exchange.answer(200, FETCHED_IMAGE)


async def test_a_fetched_image_is_held_until_it_is_decoded() -> None:
    """Where it fills the budget nothing else fits in, and afterwards all of it is free."""
    bodies = BodyBudget(len(FETCHED_IMAGE))
    with closing(_Watched(bodies)) as decoders:
        async with serve_local(_image) as server:
            reference = ImageReference(f"http://localhost:{server.port}/", "messages")
            for _ in range(3):
                await image_loader(decoders, known_bytes=0, bodies=bodies).load(
                    [reference], [UNREDUCED]
                )
    assert decoders.refused == 3
    bodies.reserve(len(FETCHED_IMAGE), 0)


async def test_an_image_beyond_the_budget_is_refused_for_now() -> None:
    """The client may try again; what had arrived is given back."""
    bodies = BodyBudget(len(FETCHED_IMAGE) - 1)
    with closing(_Watched(bodies)) as decoders:
        async with serve_local(_image) as server:
            reference = ImageReference(f"http://localhost:{server.port}/", "messages")
            with pytest.raises(OverloadedError, match="Try again"):
                await image_loader(decoders, known_bytes=0, bodies=bodies).load(
                    [reference], [UNREDUCED]
                )
    bodies.reserve(len(FETCHED_IMAGE) - 1, 0)


async def test_pixels_are_held_until_the_answer_ends(tmp_path: Path) -> None:
    """A full queue of requests with large images is bounded like their bodies."""
    engine = ScriptedEngine(gate=asyncio.Event())
    image = {"type": "image_url", "image_url": {"url": data_url(FETCHED_IMAGE)}}
    content = [{"type": "text", "text": "a"}, image]
    body = {"model": MODEL, "messages": [{"role": "user", "content": content}], "stream": True}
    gateway = toy_gateway(tmp_path, engine)
    async with client_of(gateway) as client:
        bodies = gateway.bodies
        before = bodies._left
        async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
            lines = answer.aiter_lines()
            await anext(lines)
            (requested,) = engine.requests
            assert requested.images[0].nbytes == before - bodies._left
            assert engine.gate is not None
            engine.gate.set()
            async for _ in lines:
                pass
        # The answer's last line came first.
        await eventually_async(lambda: bodies._left == before)
