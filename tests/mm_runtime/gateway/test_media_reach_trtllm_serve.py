"""Backend PyTorch: media of earlier messages are where the conversation has them.

The recorded server puts placeholders where its version does: of 1.0 all in front of the last
message, of 1.1 and 1.2 those of all messages so far in front of each. It fails, as upstream does,
on a prompt with more of them than media.
"""

import asyncio
import io
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from mm_runtime.backends.openai_server.body import pixmap_file
from mm_runtime.gateway.media.encoding_memory import EncodingMemory
from support.gateways import MODEL
from support.images import data_url, encode, plain_image
from support.recorded_server import RecordedServer, recorded_server
from support.toy_qwen import toy_qwen_client

VERSIONS = ("1.0.0", "1.1.0", "1.2.1")
NEWEST = "1.3.0rc20"
IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


@pytest.fixture(scope="module", params=VERSIONS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RecordedServer, str]]:
    with recorded_server(tmp_path_factory.mktemp("recorded"), request.param) as one:
        yield one, request.param


@pytest.fixture
async def client(
    tmp_path: Path, server: tuple[RecordedServer, str]
) -> AsyncIterator[httpx.AsyncClient]:
    async with toy_qwen_client(tmp_path, *server) as one:
        yield one


async def send(client: httpx.AsyncClient, *messages: object, **fields: object) -> httpx.Response:
    body = {"model": MODEL, "messages": list(messages), **fields}
    return await client.post("/v1/chat/completions", json=body)


def user(*parts: object) -> dict[str, Any]:
    shown = [{"type": "text", "text": one} if isinstance(one, str) else one for one in parts]
    return {"role": "user", "content": shown}


def said(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def image(width: int, height: int = 56) -> dict[str, Any]:
    return shown(plain_image((width, height)))


def shown(shown: Image.Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(encode(shown))}}


async def test_a_question_after_an_image(
    client: httpx.AsyncClient, server: tuple[RecordedServer, str]
) -> None:
    """The most usual chat: an image with a question, its answer, another question."""
    answer = await send(client, user(image(84), "what ?"), said("a cat"), user("where ?"))
    assert answer.status_code == 200, answer.text
    content = answer.json()["choices"][0]["message"]["content"]
    assert content == "A recorded answer about 1 images."
    running, _ = server
    assert running.requested[-1]["images"] == [[84, 56]]
    assert running.prompts[-1] == (
        f"<|im_start|>user {IMAGE}what ? <|im_start|>assistant a cat "
        "<|im_start|>user where ? ASSISTANT:"
    )


async def test_images_of_several_messages(
    client: httpx.AsyncClient, server: tuple[RecordedServer, str]
) -> None:
    """Each stands in its message, behind texts too, in the order of the pixels; so in a stream."""
    messages = (
        {"role": "system", "content": "be short"},
        user("first", image(84), image(112)),
        said("seen"),
        user(image(140), "and", image(168), "?"),
    )
    answer = await send(client, *messages, stream=True)
    assert answer.text.endswith("data: [DONE]\n\n")
    running, _ = server
    assert running.requested[-1]["images"] == [[84, 56], [112, 56], [140, 56], [168, 56]]
    assert running.prompts[-1] == (
        f"<|im_start|>system be short <|im_start|>user first{IMAGE}{IMAGE} "
        f"<|im_start|>assistant seen <|im_start|>user {IMAGE}and{IMAGE}? ASSISTANT:"
    )


async def test_texts_alone_are_the_servers(
    client: httpx.AsyncClient, server: tuple[RecordedServer, str]
) -> None:
    """Without media the server writes the conversation, which it does as the checkpoint says."""
    assert (await send(client, user("what ?"), said("?"), user("so"))).status_code == 200
    running, _ = server
    assert running.prompts[-1] == "user: what ?\nassistant: ?\nuser: so\n"


async def test_newer_servers_write_themselves(tmp_path: Path) -> None:
    """They refuse templates of requests, and place media message by message."""
    with recorded_server(tmp_path / "recorded", NEWEST) as server:
        async with toy_qwen_client(tmp_path, server, NEWEST) as client:
            answer = await send(client, user(image(84), "what ?"), said("a cat"), user("so"))
        assert answer.status_code == 200, answer.text
        assert server.prompts[-1] == f"user: {IMAGE}\nwhat ?\nassistant: a cat\nuser: so\n"


async def test_a_video_is_refused(
    client: httpx.AsyncClient, server: tuple[RecordedServer, str]
) -> None:
    before = len(server[0].requested)
    row = data_url(encode(plain_image())).replace("image/png", "video/jpeg")
    refused = await send(client, user({"type": "video_url", "video_url": {"url": row}}))
    assert "takes no video" in refused.json()["error"]["message"]
    assert len(server[0].requested) == before


def test_a_file_takes_what_it_counts_as() -> None:
    pixels = np.zeros((1_400, 1_400, 3), np.uint8)
    file = pixmap_file(pixels)
    assert pixels.nbytes < sys.getsizeof(file.encode()) <= file.memory_bytes


async def test_a_file_in_the_making_keeps_its_room() -> None:
    """A client that leaves frees the room when the thread has ended, and not before."""
    room, released = EncodingMemory(10), asyncio.Event()
    loop = asyncio.get_running_loop()
    made = []

    def slow() -> io.BytesIO:
        asyncio.run_coroutine_threadsafe(released.wait(), loop).result(60)
        made.append("slow")
        return io.BytesIO()

    async def take(count: int) -> None:
        async with room.of(count, slow if count > 5 else io.BytesIO):
            made.append(str(count))

    first = asyncio.create_task(take(8))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    second = asyncio.create_task(take(5))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert made == []
    released.set()
    await asyncio.wait_for(second, 60)
    assert made == ["slow", "5"]
