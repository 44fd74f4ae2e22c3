"""A gateway decodes the images of a chat once, not with every turn."""

import asyncio
from contextlib import closing

import numpy as np
import pytest
from PIL import Image

from mm_edge.errors import InvalidRequestError
from mm_runtime.gateway.media.decoding.pool import Decoders, Run
from mm_runtime.gateway.media.decoding.process import DecoderLimits
from mm_runtime.gateway.media.image_cache import DecodedImageCache
from mm_runtime.gateway.media.images import _LOOKED_UP_AT_ONCE, ImageReference
from mm_runtime.serving.preprocess.processors.tiles import TileProcessor
from support.cases import cases
from support.image_loaders import image_loader
from support.images import data_url, encode, plain_image
from support.unreduced import UNREDUCED

BYTES = 2 * 2 * 3
DEADLINE = 60.0
LIMITS = DecoderLimits(memory_bytes=512 << 20, wall_seconds=120)


def decoded(known: DecodedImageCache, wanted: list[tuple[int, int, str]]) -> list[int]:
    """Return the shades that were decoded of images of a shade, a number and a salt."""
    made = []
    for shade, count, salt in wanted:
        key = known.key(bytes([shade]), count, salt)
        pixels = known.find(key)
        if pixels is None:
            made.append(shade)
            pixels = np.full((2, 2, 3), shade, np.uint8)
            known.keep(key, pixels)
        else:
            assert not pixels.flags.writeable
        assert (pixels == shade).all()
    return made


def shades(*wanted: int) -> list[tuple[int, int, str]]:
    return [(shade, 1, "") for shade in wanted]


@cases(
    "room wanted expected",
    {
        "equal bytes": (10 * BYTES, shades(1, 2, 1, 2), [1, 2]),
        "one of several may be smaller": (10 * BYTES, [(1, 1, ""), (1, 2, "")], [1, 1]),
        "tenants": (10 * BYTES, [(1, 1, salt) for salt in ("ann", "bob", "ann", "")], [1, 1, 1]),
        "the longest unused goes first": (2 * BYTES, shades(1, 2, 1, 3, 1, 2), [1, 2, 3, 2]),
        "no memory": (0, shades(1, 1), [1, 1]),
        "less than one image": (BYTES - 1, shades(1, 1), [1, 1]),
    },
)
def test_known_images_are_not_decoded(
    room: int, wanted: list[tuple[int, int, str]], expected: list[int]
) -> None:
    assert decoded(DecodedImageCache(room), wanted) == expected


def test_the_first_of_two_that_were_decoded_at_once_stays() -> None:
    """Both requests have found nothing; the second one's pixels are counted no more."""
    known = DecodedImageCache(2 * BYTES)
    key = known.key(b"\1", 1)
    first, second = (np.ones((2, 2, 3), np.uint8) for _ in range(2))
    known.keep(key, first)
    known.keep(key, second)
    assert known.find(key) is first
    assert decoded(known, shades(2, 1)) == [2]


async def test_a_known_image_waits_for_no_decoder() -> None:
    """The only one is held by another request; new images, and another tenant's, wait for it."""
    known, new = (
        [ImageReference(data_url(encode(plain_image(size))), "messages[0]")]
        for size in ((60, 30), (30, 60))
    )
    with closing(Decoders(1, LIMITS)) as decoders:
        loader = image_loader(decoders)
        first = await loader.load(known, [UNREDUCED], "ann")
        held, release = asyncio.Event(), asyncio.Event()

        async def hold(_: Run) -> None:
            held.set()
            await release.wait()

        holding = asyncio.create_task(decoders.through(hold))
        try:
            async with asyncio.timeout(DEADLINE):
                await held.wait()
                again = await loader.load(known, [UNREDUCED], "ann")
                others = [loader.load(known, [UNREDUCED], "bob"), loader.load(new, [UNREDUCED])]
                waiting = [asyncio.create_task(one) for one in others]
        finally:
            release.set()
        async with asyncio.timeout(DEADLINE):
            await holding
            decoded = [(await one)[0] for one in waiting]
    assert again[0] is first[0]
    assert [one.shape for one in decoded] == [(30, 60, 3), (60, 30, 3)]
    assert decoded[0] is not first[0]


async def test_errors_are_not_kept() -> None:
    """A damaged image is refused each time, with the same words."""
    damaged = [ImageReference(data_url(encode(plain_image())[:-30]), "messages[0]")]
    with closing(Decoders(1, LIMITS)) as decoders:
        loader = image_loader(decoders)
        for _ in range(2):
            with pytest.raises(InvalidRequestError, match="damaged"):
                await loader.load(damaged, [UNREDUCED])


@cases("between", {"letters": "", "escaped": "\n"})
async def test_large_images_are_known_too(between: str) -> None:
    """Their files are looked up in a thread; no decoder runs."""
    noise = np.random.default_rng(1).integers(0, 256, (600, 600, 3), dtype=np.uint8)
    url = data_url(encode(Image.fromarray(noise)))
    assert len(url) > _LOOKED_UP_AT_ONCE
    url = url[:1000] + between + url[1000:]
    with closing(Decoders(1, LIMITS)) as decoders:
        loader = image_loader(decoders)
        first = await loader.load([ImageReference(url, "messages[0]")], [UNREDUCED])
        again = await loader.load([ImageReference(url, "messages[0]")], [UNREDUCED])
    assert again[0] is first[0]
    np.testing.assert_array_equal(first[0], noise)


def test_details_keep_images_apart() -> None:
    tiles = TileProcessor(UNREDUCED.colours, side=28, tiles=4, positions=5)
    reference = ImageReference(data_url(encode(plain_image((60, 30)))), "messages[0]")
    with closing(Decoders(1, LIMITS)) as decoders:
        loader = image_loader(decoders)
        shapes = [
            asyncio.run(loader.load([reference], [tiles.with_detail(detail, 1)]))[0].shape
            for detail in ("low", "auto", "low")
        ]
    assert shapes == [(14, 28, 3), (30, 60, 3), (14, 28, 3)]
