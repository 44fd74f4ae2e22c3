"""What is fetched, and what is decoded, holds the memory of bodies for as long as it is there."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from mm_edge.body_budget import BodyBudget
from mm_runtime.gateway.errors import OverloadedError
from mm_runtime.gateway.media.decoding.pool import Decoders, Found, Run
from mm_runtime.gateway.media.decoding.process import DecoderLimits
from mm_runtime.gateway.media.image_cache import DecodedImageCache
from mm_runtime.gateway.media.images import ImageLimits, ImageLoader, ImageReference
from mm_runtime.images.fetch import FetchPolicy, ImageFetcher
from support.eventually import eventually_async
from support.gateways import MODEL, serve, toy_gateway
from support.http_servers import Exchange, serve_local
from support.images import data_url, encode, plain_image
from support.scripted_engine import ScriptedEngine
from support.unreduced import UNREDUCED

IMAGE = encode(plain_image())
_POLICY = FetchPolicy(
    allowed_hosts=(), allow_private_networks=True, timeout_seconds=60, max_bytes=1_000_000
)


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


def _loader(bodies: BodyBudget, decoders: Decoders) -> ImageLoader:
    return ImageLoader(
        fetcher=ImageFetcher(_POLICY),
        limits=ImageLimits(max_bytes=1_000_000, max_pixels=1_000_000),
        decoders=decoders,
        known=DecodedImageCache(0),
        bodies=bodies,
        reads_times=False,
    )


async def _image(exchange: Exchange) -> None:
    await exchange.answer(200, IMAGE)


async def test_a_fetched_image_is_held_until_it_is_decoded() -> None:
    """Where it fills the budget nothing else fits in, and afterwards all of it is free."""
    bodies = BodyBudget(len(IMAGE))
    with closing(_Watched(bodies)) as decoders:
        async with serve_local(_image) as server:
            reference = ImageReference(f"http://localhost:{server.port}/", "messages")
            for _ in range(3):
                await _loader(bodies, decoders).load([reference], [UNREDUCED])
    assert decoders.refused == 3
    bodies.reserve(len(IMAGE), 0)


async def test_an_image_beyond_the_budget_is_refused_for_now() -> None:
    """The client may try again; what had arrived is given back."""
    bodies = BodyBudget(len(IMAGE) - 1)
    with closing(_Watched(bodies)) as decoders:
        async with serve_local(_image) as server:
            reference = ImageReference(f"http://localhost:{server.port}/", "messages")
            with pytest.raises(OverloadedError, match="Try again"):
                await _loader(bodies, decoders).load([reference], [UNREDUCED])
    bodies.reserve(len(IMAGE) - 1, 0)


async def test_pixels_are_held_until_the_answer_ends(tmp_path: Path) -> None:
    """A full queue of requests with large images is bounded like their bodies."""
    engine = ScriptedEngine(gate=asyncio.Event())
    image = {"type": "image_url", "image_url": {"url": data_url(IMAGE)}}
    content = [{"type": "text", "text": "a"}, image]
    body = {"model": MODEL, "messages": [{"role": "user", "content": content}], "stream": True}
    async with (
        serve(toy_gateway(tmp_path, engine)) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):
        bodies = running.gateway.bodies
        before = bodies.left_bytes
        async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
            lines = answer.aiter_lines()
            await anext(lines)
            (requested,) = engine.requests
            assert requested.images[0].nbytes == before - bodies.left_bytes
            assert engine.gate is not None
            engine.gate.set()
            async for _ in lines:
                pass
        # The answer's last line came first.
        await eventually_async(lambda: bodies.left_bytes == before)
