"""Backend PyTorch: media of earlier messages are where the conversation has them.

The recorded server puts placeholders where its version does: of 1.0 all in front of the last
message, of 1.1 and 1.2 those of all messages so far in front of each. It fails, as upstream does,
on a prompt with more of them than media.
"""

import hashlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from mm_runtime.gateway.media.frame_file import frame_file
from support.gateways import MODEL
from support.images import data_url, encode, plain_image
from support.model_configs import planned_on_pytorch
from support.recorded_server import RecordedServer, recorded_server
from support.toy_qwen import FAMILY, toy_qwen_client
from support.videos import video

VERSIONS = ("1.0.0", "1.1.0", "1.2.1")
NEWEST = "1.3.0rc20"
FRAMES = 8
IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"


def server_of(version: str, folder: Path, frames: int = 0) -> Iterator[RecordedServer]:
    """Run a recorded server with the plan's arguments for media."""
    plan = planned_on_pytorch(FAMILY, version, maxVideoFrames=frames or None).serve
    assert plan
    at = plan.argv.index("--media_io_kwargs") if frames else len(plan.argv)
    with recorded_server(folder, version, arguments=plan.argv[at : at + 2]) as server:
        yield server


@pytest.fixture(scope="module", params=VERSIONS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RecordedServer, str]]:
    for one in server_of(request.param, tmp_path_factory.mktemp("recorded")):
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


def frames(count: int) -> dict[str, Any]:
    return row([still(seed) for seed in range(count)])


def row(frames: list[Image.Image], **options: object) -> dict[str, Any]:
    encoded = [data_url(encode(frame)).partition(",")[2] for frame in frames]
    url = "data:video/jpeg;base64," + ",".join(encoded)
    return {"type": "video_url", "video_url": {"url": url, **options}}


def shown(shown: Image.Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(encode(shown))}}


def still(seed: int, size: tuple[int, int] = (84, 56)) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), np.uint8)
    return Image.fromarray(pixels)


async def posted(client: httpx.AsyncClient, *parts: object, **fields: object) -> httpx.Response:
    return await send(client, user(*parts), **fields)


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


async def test_a_question_after_a_video(tmp_path: Path) -> None:
    """The conversation that follows a video is written with it."""
    for server in server_of("1.2.1", tmp_path / "recorded", FRAMES):
        async with toy_qwen_client(tmp_path, server, "1.2.1", FRAMES) as client:
            answer = await send(
                *(client, user(frames(3), "what ?"), said("a dog")),
                user("where ?"),
            )
        assert answer.status_code == 200, answer.text
        assert [one[:2] for one in server.requested[-1]["videos"]] == [[4, 84]]
        assert server.prompts[-1] == (
            f"<|im_start|>user {VIDEO}what ? <|im_start|>assistant a dog "
            "<|im_start|>user where ? ASSISTANT:"
        )


async def test_newer_servers_write_themselves(tmp_path: Path) -> None:
    """They refuse templates of requests, and place media message by message."""
    for server in server_of(NEWEST, tmp_path / "recorded"):
        async with toy_qwen_client(tmp_path, server, NEWEST) as client:
            answer = await send(client, user(image(84), "what ?"), said("a cat"), user("so"))
        assert answer.status_code == 200, answer.text
        assert server.prompts[-1] == f"user: {IMAGE}\nwhat ?\nassistant: a cat\nuser: so\n"


VERSION = "1.2.1"
ORDER = {"type": "text", "text": "order: none"}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordedServer]:
    yield from server_of(VERSION, tmp_path_factory.mktemp("recorded"), FRAMES)


@pytest.fixture
async def viewer(tmp_path: Path, reader: RecordedServer) -> AsyncIterator[httpx.AsyncClient]:
    async with toy_qwen_client(tmp_path, reader, VERSION, FRAMES) as one:
        yield one


def seen(*frames: Image.Image) -> list[Any]:
    """Return what the server reports of a video of these frames, an odd last one twice."""
    even = [*frames, *frames[len(frames) - len(frames) % 2 :]]
    digest = hashlib.sha256(b"".join(np.asarray(one).tobytes() for one in even)).hexdigest()
    return [len(even), *even[0].size, 2.0, digest]


@pytest.mark.parametrize("count", [1, 2, 3, FRAMES])
async def test_the_server_reads_these_frames(
    viewer: httpx.AsyncClient, reader: RecordedServer, count: int
) -> None:
    """Every value of every frame is equal, in order; an odd last one is there twice."""
    frames = [still(seed) for seed in range(count)]
    answer = (await posted(viewer, row(frames), ORDER)).json()

    assert answer["choices"][0]["message"]["content"] == "A recorded answer about 1 videos."
    assert reader.requested[-1]["videos"] == [seen(*frames)]
    # 84 x 56 are 3 x 2 features of every two frames.
    one = (await posted(viewer, shown(frames[0]), ORDER)).json()["usage"]["prompt_tokens"]
    assert answer["usage"]["prompt_tokens"] - one == 6 * (-(-count // 2) - 1)


async def test_longer_videos_are_sampled_here_alone(
    viewer: httpx.AsyncClient, reader: RecordedServer
) -> None:
    """Of 20 frames the gateway takes 8, and the server all of those, a stream as well."""
    frames = [still(seed) for seed in range(20)]
    answer = await posted(viewer, row(frames), ORDER, stream=True)
    assert answer.text.count("data:") > 2
    places = np.linspace(0, 19, FRAMES).round().astype(int)
    assert reader.requested[-1]["videos"] == [seen(*(frames[at] for at in places))]

    coded = "data:video/mp4;base64," + data_url(video(25)).partition(",")[2]
    part = {"type": "video_url", "video_url": {"url": coded, "num_frames": 4}}
    assert (await posted(viewer, part, ORDER)).status_code == 200
    ((count, width, height, _, _),) = reader.requested[-1]["videos"]
    assert (count, width, height) == (4, 56, 56)


async def test_sizes_are_those_of_the_video_processor(
    tmp_path: Path, reader: RecordedServer
) -> None:
    """Images too: what is above its bound, the server would scale down."""
    most = 4 * 28**2
    files = {"video_preprocessor_config.json": {"min_pixels": 28**2, "max_pixels": most}}
    async with toy_qwen_client(tmp_path, reader, VERSION, FRAMES, files) as viewer:
        assert (await posted(viewer, shown(still(1, (112, 112))), ORDER)).status_code == 200
    assert reader.requested[-1]["videos"][0][:3] == [2, 56, 56]


async def test_too_much_is_refused_here(viewer: httpx.AsyncClient, reader: RecordedServer) -> None:
    """More frames than planned, private addresses and paths never reach the server."""
    before = len(reader.requested)
    many = row([still(1)] * 3, num_frames=FRAMES + 1)
    address = f"http://{reader.address}/health"
    private = {"type": "video_url", "video_url": {"url": address}}
    local = {"type": "video_url", "video_url": {"url": "/etc/hostname"}}
    for part, param, word in (
        (many, "messages[0].content[0].video_url.num_frames", "takes at most 8 frames"),
        (private, "messages[0].content[0]", "is refused"),
        (local, "messages[0].content[0]", ""),
    ):
        refused = await posted(viewer, part, ORDER)
        error = refused.json()["error"]
        assert (refused.status_code, error["param"]) == (400, param), error
        assert word in error["message"]
    assert len(reader.requested) == before


async def test_a_model_without_videos_says_so(tmp_path: Path, reader: RecordedServer) -> None:
    async with toy_qwen_client(tmp_path, reader, VERSION) as viewer:
        error = (await posted(viewer, row([still(1)]), ORDER)).json()["error"]
        assert "takes no video" in error["message"]


def test_a_file_is_small() -> None:
    """Frames that resemble each other take a fraction of their pixels."""
    frames = np.stack([np.asarray(plain_image((280, 280)))] * FRAMES)
    assert len(frame_file(frames).getvalue()) < frames.nbytes / 50
