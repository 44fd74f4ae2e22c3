"""A file that every reader shows alike goes to a server that reads files as it came, no other."""

import asyncio
import io
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from mm_edge.errors import InvalidRequestError
from mm_runtime.backends.openai_server.client import OpenAiServerEngine
from mm_runtime.backends.vllm.client import VllmDialect
from mm_runtime.gateway.backends.engine import LIKELIEST, EngineRequest
from mm_runtime.gateway.errors import EngineUnavailableError
from mm_runtime.gateway.media.as_sent import as_sent
from mm_runtime.gateway.media.decoding.jobs import image_job
from mm_runtime.gateway.media.decoding.pool import Decoders
from mm_runtime.gateway.media.decoding.process import DecoderLimits
from mm_runtime.gateway.media.decoding.wire import HEADER, Decoded, array_header, read_header
from mm_runtime.gateway.media.images import ImageReference
from mm_runtime.images.media import BadImageError, decode
from support.cases import cases
from support.families.expected import noise_image
from support.http_servers import Exchange, serve_local
from support.image_loaders import image_loader
from support.images import data_url
from support.unreduced import UNREDUCED

IMAGE = noise_image(53, 37, seed=1)
PNG, JPEG = "image/png", "image/jpeg"
KEPT = replace(UNREDUCED, resized_there=True)
TURNED, SAID = Image.Exif(), PngInfo()
TURNED[0x112] = 6
SAID.add(b"gAMA", (45_455).to_bytes(4, "big"))


def saved(image: Image.Image, **how: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, **how)
    return file.getvalue()


def typed(file: bytes) -> Decoded:
    found = image_job(UNREDUCED.reduced, 1, 10_000, lambda *_: True)(file)
    assert isinstance(found, Decoded)
    header = array_header(found)[HEADER.size :]
    read = read_header(header, found.array.nbytes)
    assert isinstance(read, Decoded)
    assert (read.media_type, read.array.shape) == (found.media_type, found.array.shape)
    return found


@cases(
    "how",
    {"png": {"format": "PNG"}, "stored": {"format": "PNG", "compress_level": 0}}
    | {
        f"jpeg {quality} {sampling}": {
            "format": "JPEG",
            "quality": quality,
            "subsampling": sampling,
            "comment": "a",
        }
        for quality in (30, 90, 100)
        for sampling in (0, 1, 2)
    },
)
def test_pixels_are_those_of_any_reader(how: dict[str, Any]) -> None:
    """Pillow, which vLLM reads files with, gives the gateway's own pixels."""
    file = saved(IMAGE, **how)
    found = typed(file)
    assert found.media_type == (PNG if how["format"] == "PNG" else JPEG)
    with Image.open(io.BytesIO(file)) as read:
        shown = decode(file, max_pixels=10_000)
        assert np.array_equal(np.asarray(read.convert("RGB")), np.asarray(shown))
        assert found.array.shape == (*shown.size[::-1], 3)


@cases(
    "file",
    {
        "turned": saved(IMAGE, format="JPEG", exif=TURNED),
        "profile": saved(IMAGE, format="PNG", pnginfo=SAID),
        "progressive": saved(IMAGE, format="JPEG", progressive=True),
        "behind a JPEG": saved(IMAGE, format="JPEG") + b"x",
        "behind a PNG": saved(IMAGE, format="PNG") + b"x",
        "webp": saved(IMAGE, format="WEBP"),
        "gif": saved(IMAGE, format="GIF"),
    }
    | {
        f"{form} {mode}": saved(IMAGE.convert(mode), format=form)
        for form, mode in [("PNG", "L"), ("PNG", "P"), ("PNG", "RGBA"), ("JPEG", "L")]
    },
)
def test_others_are_sent_as_pixels(file: bytes) -> None:
    """Readers differ about them, or they hold more than pixels."""
    assert not typed(file).media_type


def test_a_resized_image_is_sent_as_pixels() -> None:
    job = image_job(lambda image, _: image.resize((28, 28)), 1, 10_000, lambda *_: False)
    assert not job(saved(IMAGE, format="PNG")).media_type  # type: ignore[union-attr]


@cases("cut", {"png": saved(IMAGE, format="PNG"), "jpeg": saved(IMAGE, format="JPEG")})
def test_a_damaged_file_goes_nowhere(cut: bytes) -> None:
    with pytest.raises(BadImageError):
        typed(cut[:600] + cut[640:])


@cases("damaged", {"complete": False, "damaged": True})
async def test_the_last_byte_waits_for_the_decoder(*, damaged: bool) -> None:
    """A server has not all of the body before, and of a damaged file never."""
    file, came = saved(IMAGE, format="JPEG"), asyncio.Event()
    file = file[:700] + file[740:] if damaged else file
    lacked: list[int] = []

    async def answer(exchange: Exchange) -> None:
        length = int(exchange.headers["content-length"])
        lacked.append(length - len(await exchange.reader.readexactly(length - 1)))
        came.set()
        lacked.append(1 - len(await exchange.reader.readexactly(1)))
        await exchange.answer(503)

    class Held(Decoders):
        async def through(self, work: Any) -> Any:
            await came.wait()
            return await super().through(work)

    reference = ImageReference(data_url(file, JPEG), "messages[0]")
    with closing(Held(1, DecoderLimits(512 << 20, wall_seconds=120))) as decoders:
        loader = image_loader(decoders, keeps_files=True)
        async with serve_local(answer) as server, loader.ahead([reference], [KEPT]) as load:
            address = f"127.0.0.1:{server.port}"
            engine = OpenAiServerEngine(address, VllmDialect("tiny"), request_seconds=60)
            request = EngineRequest("a", 1, LIKELIEST, images=await load())
            with pytest.raises(InvalidRequestError if damaged else EngineUnavailableError):
                await anext(engine.generate(request))
            await engine.close()
    assert lacked == ([1] if damaged else [1, 0])


def test_vllm_gets_the_file() -> None:
    """Which takes no more memory; caches know it by file and salt."""
    file = saved(IMAGE, format="JPEG")
    request = partial(EngineRequest, prompt="a", sampling=LIKELIEST, max_tokens=1)
    keys = set()
    for content, salt in [(file, ""), (file, "b"), (file + b"x", "")]:
        pixels = as_sent(np.asarray(IMAGE).shape, content, JPEG)
        body = VllmDialect("tiny").body(request(images=(pixels,), cache_salt=salt))
        ((sent, behind),) = body.files
        made = sent.encode().getvalue()
        assert (made, body.first.endswith(b"data:image/jpeg;base64,")) == (content, True)
        assert sent.memory_bytes == 0
        keys.add(behind.partition(b'"uuid": "')[2][:64])
    assert len(keys) == 3
