"""What the plan allows is decoded within the memory that the plan gives a decoder."""

from collections.abc import AsyncIterator, Callable

import numpy as np
import pytest
from PIL import Image

from mm_api.documents.serving_plan import GatewayPlan
from mm_api.gateway_memory import decoder_bytes
from mm_runtime.gateway.media.decoding.jobs import image_job
from mm_runtime.gateway.media.decoding.pool import Decoders
from mm_runtime.gateway.media.decoding.process import DecoderLimits
from mm_runtime.serving.preprocess.processors.prepared import Colours
from mm_runtime.serving.preprocess.processors.views import ViewProcessor
from support.images import RED, encode, plain_image

pytestmark = pytest.mark.slow

SIZE = (8_192, 6_103)
PLAN = GatewayPlan(
    max_concurrency=8,
    max_queue_size=64,
    max_image_bytes=20 << 20,
    max_image_pixels=50_000_000,
    max_images_per_request=1,
    fetch_timeout_seconds=10,
    request_timeout_seconds=300,
)
VIEWS = ViewProcessor(
    Colours((0.5,) * 3, (0.5,) * 3, 1 / 255, Image.Resampling.BICUBIC),
    tile=384,
    side=27,
    grids=((384, 384),),
    limit=9,
    single_views=True,
    video=True,
)


def _turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return encode(plain_image(SIZE), "JPEG", exif=exif)


def _palette() -> Image.Image:
    image = Image.new("P", SIZE, 0)
    image.putpalette([10, 20, 30] * 256)
    return image


FILES: dict[str, Callable[[], bytes]] = {
    "png-with-transparency": lambda: encode(plain_image(SIZE, (*RED, 128), "RGBA")),
    "png-of-a-palette": lambda: encode(_palette(), transparency=0),
    "png-of-sixteen-bits": lambda: encode(Image.fromarray(np.zeros(SIZE[::-1], np.uint16))),
    "gif": lambda: encode(_palette(), "GIF", transparency=0),
    "progressive-jpeg": lambda: encode(plain_image(SIZE), "JPEG", progressive=True, subsampling=0),
    "progressive-cmyk": lambda: encode(
        plain_image(SIZE, (1, 2, 3, 4), "CMYK"), "JPEG", progressive=True, subsampling=0
    ),
    "jpeg-turned": _turned,
    "webp": lambda: encode(plain_image(SIZE), "WEBP", method=0),
    "webp-with-transparency": lambda: encode(
        plain_image(SIZE, (*RED, 9), "RGBA"), "WEBP", lossless=True, method=0
    ),
}


@pytest.fixture
async def decoders() -> AsyncIterator[Decoders]:
    limits = DecoderLimits(decoder_bytes(PLAN), wall_seconds=120)
    decoders = Decoders(1, limits)
    yield decoders
    decoders.close()


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("count", [1, 2], ids=["full-size", "as-a-view"])
async def test_an_image(decoders: Decoders, kind: str, count: int) -> None:
    """Decoded and reduced; of several, each is laid on a square first."""
    content = FILES[kind]()
    assert len(content) <= PLAN.max_image_bytes
    job = image_job(VIEWS.reduced, count, PLAN.max_image_pixels)
    assert (await decoders.through(lambda run: run(job, content, 60))).array.size
