"""The memory of a refused request goes with its refusal, not with some later garbage collection.

An exception holds the frames that it passed, and with them the body. Where one of those frames
names the exception, or the task that keeps it, the body stays until a full collection comes by: an
attack with a hundred large bodies left the gateway with a gigabyte.
"""

import gc
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.bombs import chunked_png
from support.eventually import eventually_async
from support.gateways import MODEL, serve, toy_gateway
from support.images import data_url
from support.raw_http import say
from support.representatives import others_are_slow
from support.scripted_engine import ScriptedEngine

MIB = 1 << 20
SIZE = 4 * MIB
REQUESTS = 4


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield
    tracemalloc.stop()
    gc.enable()


def _requesting(*parts: object) -> bytes:
    question = {"model": MODEL, "messages": [{"role": "user", "content": list(parts)}]}
    return json.dumps(question).encode()


def _image(content: bytes) -> object:
    return {"type": "image_url", "image_url": {"url": data_url(content)}}


def _padded(question: bytes) -> bytes:
    return question + b" " * SIZE


BODIES = {
    "no-json": lambda: b"[" * SIZE,
    "too-many-elements": lambda: b"[" + b"1," * (SIZE // 2) + b"1]",
    "no-part": lambda: _padded(_requesting()),
    "an-unknown-model": lambda: _padded(
        _requesting({"type": "text", "text": "x"}).replace(MODEL.encode(), b"another")
    ),
    "a-part-of-unknown-type": lambda: _padded(_requesting({"type": "smell"})),
    "no-image": lambda: _requesting(_image(b"x" * SIZE)),
    "a-bomb": lambda: _requesting(_image(chunked_png(SIZE // 12))),
    "two-images-one-of-them-bad": lambda: _requesting(_image(b"x" * SIZE), _image(b"")),
}


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize(
    "kind", others_are_slow(BODIES, "no-json", "no-part", "no-image", "a-bomb")
)
async def test_nothing_of_it_stays(tmp_path: Path, kind: str) -> None:
    """After several refusals less is held than one body takes."""
    body = BODIES[kind]()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    request = head + b"content-length: %d\r\n\r\n" % len(body) + body
    gateway = toy_gateway(tmp_path, ScriptedEngine(), max_image_bytes=2 * SIZE, max_queue_size=8)
    async with serve(gateway) as running:
        statuses = {(await say(running.port, request)).status}
        before, _ = tracemalloc.get_traced_memory()
        statuses |= {(await say(running.port, request)).status for _ in range(REQUESTS)}
        await eventually_async(lambda: tracemalloc.get_traced_memory()[0] - before < SIZE)
    assert statuses <= {400, 404}
