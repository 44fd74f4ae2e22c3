"""A gateway decodes the images of a chat once, not with every turn."""

import asyncio
from contextlib import closing

import numpy as np
import pytest
from PIL import Image

from mm_runtime.gateway.errors import InvalidRequestError
from mm_runtime.gateway.media.decoding.pool import Decoders, Run
from mm_runtime.gateway.media.decoding.process import DecoderLimits
from mm_runtime.gateway.media.image_cache import DecodedImageCache, Pixels
from mm_runtime.gateway.media.images import (
    _LOOKED_UP_AT_ONCE,
    ImageReference,
)
from mm_runtime.serving.preprocess.processors.tiles import TileProcessor
from support.image_loaders import image_loader
from support.images import data_url, encode, plain_image
from support.unreduced import UNREDUCED

BYTES = 2 * 2 * 3
DEADLINE = 60.0


class Decoder:
    """Counts what it is requested."""

    def __init__(self) -> None:
        self.requested: list[int] = []

    def __call__(self, shade: int) -> Pixels:
        self.requested.append(shade)
        return np.full((2, 2, 3), shade, np.uint8)


def through(
    known: DecodedImageCache, decoder: Decoder, shade: int, count: int = 1, salt: str = ""
) -> Pixels:
    """Return an image of a shade: the known one, else a decoded one, which is kept."""
    key = known.key(bytes([shade]), count, salt)
    pixels = known.find(key)
    if pixels is None:
        pixels = decoder(shade)
        known.keep(key, pixels)
    return pixels


def shades(known: DecodedImageCache, decoder: Decoder, *wanted: int, count: int = 1) -> list[int]:
    return [int(through(known, decoder, shade, count)[0, 0, 0]) for shade in wanted]


def test_equal_bytes_are_decoded_once() -> None:
    """The second time the pixels are those of the first, and no one may change them."""
    known, decoder = DecodedImageCache(10 * BYTES), Decoder()
    assert shades(known, decoder, 1, 2, 1, 2) == [1, 2, 1, 2]
    assert decoder.requested == [1, 2]
    assert not through(known, decoder, 1).flags.writeable


def test_the_number_of_images_counts() -> None:
    """One of several images may be made smaller than the same one alone."""
    known, decoder = DecodedImageCache(10 * BYTES), Decoder()
    shades(known, decoder, 1)
    shades(known, decoder, 1, count=2)
    assert decoder.requested == [1, 1]


def test_salts_keep_tenants_apart() -> None:
    known, decoder = DecodedImageCache(10 * BYTES), Decoder()
    for salt in ("ann", "bob", "ann", ""):
        through(known, decoder, 1, salt=salt)
    assert decoder.requested == [1, 1, 1]


def test_the_longest_unused_goes_first() -> None:
    known, decoder = DecodedImageCache(2 * BYTES), Decoder()
    shades(known, decoder, 1, 2, 1, 3, 1, 2)
    assert decoder.requested == [1, 2, 3, 2]


@pytest.mark.parametrize("room", [0, BYTES - 1])
def test_without_room_all_are_decoded(room: int) -> None:
    """No memory, or less than one image: nothing is kept, every answer is right."""
    known, decoder = DecodedImageCache(room), Decoder()
    assert shades(known, decoder, 1, 1) == [1, 1]
    assert decoder.requested == [1, 1]


def test_the_first_of_two_that_were_decoded_at_once_stays() -> None:
    """Both requests have found nothing; the second one's pixels are counted no more."""
    known, decoder = DecodedImageCache(2 * BYTES), Decoder()
    key = known.key(b"\1", 1)
    first, second = decoder(1), decoder(1)
    known.keep(key, first)
    known.keep(key, second)
    assert known.find(key) is first
    assert shades(known, decoder, 2, 1) == [2, 1]
    assert decoder.requested == [1, 1, 2]


async def test_a_known_image_waits_for_no_decoder() -> None:
    """The only one is held by another request; new images, and another tenant's, wait for it."""
    limits = DecoderLimits(memory_bytes=512 << 20, wall_seconds=120)
    known, new = (
        [ImageReference(data_url(encode(plain_image(size))), "messages[0]")]
        for size in ((60, 30), (30, 60))
    )
    with closing(Decoders(1, limits)) as decoders:
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
    limits = DecoderLimits(memory_bytes=512 << 20, wall_seconds=120)
    damaged = [ImageReference(data_url(encode(plain_image())[:-30]), "messages[0]")]
    with closing(Decoders(1, limits)) as decoders:
        loader = image_loader(decoders)
        for _ in range(2):
            with pytest.raises(InvalidRequestError, match="damaged"):
                await loader.load(damaged, [UNREDUCED])


@pytest.mark.parametrize("kind", ["letters", "escaped"])
async def test_large_images_are_known_too(kind: str) -> None:
    """Their files are looked up in a thread; no decoder runs."""
    noise = np.random.default_rng(1).integers(0, 256, (600, 600, 3), dtype=np.uint8)
    content = encode(Image.fromarray(noise))
    assert len(content) > _LOOKED_UP_AT_ONCE
    url = data_url(content)
    if kind == "escaped":
        url = url[:1000] + "\n" + url[1000:]
    limits = DecoderLimits(memory_bytes=512 << 20, wall_seconds=120)
    with closing(Decoders(1, limits)) as decoders:
        loader = image_loader(decoders)
        first = await loader.load([ImageReference(url, "messages[0]")], [UNREDUCED])
        again = await loader.load([ImageReference(url, "messages[0]")], [UNREDUCED])
    assert again[0] is first[0]
    np.testing.assert_array_equal(first[0], noise)


def test_details_keep_images_apart() -> None:
    tiles = TileProcessor(UNREDUCED.colours, side=28, tiles=4, positions=5)
    reference = ImageReference(data_url(encode(plain_image((60, 30)))), "messages[0]")
    with closing(Decoders(1, DecoderLimits(memory_bytes=512 << 20, wall_seconds=120))) as decoders:
        loader = image_loader(decoders)
        shapes = [
            asyncio.run(loader.load([reference], [tiles.with_detail(detail, 1)]))[0].shape
            for detail in ("low", "auto", "low")
        ]
    assert shapes == [(14, 28, 3), (30, 60, 3), (14, 28, 3)]
