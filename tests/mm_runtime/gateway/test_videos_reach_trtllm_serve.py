"""Qwen2-VL on backend PyTorch: trtllm-serve reads exactly the frames that the gateway chose."""

import hashlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from mm_runtime.gateway.media.frame_file import frame_file
from support.gateways import MODEL
from support.images import data_url, encode, plain_image
from support.model_configs import planned_on_pytorch
from support.recorded_server import RecordedServer, recorded_server
from support.toy_qwen import FAMILY, SECONDS, toy_qwen_client
from support.videos import video

VERSION = "1.2.1"
FRAMES = 8
ORDER = {"type": "text", "text": "order: none"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordedServer]:
    """The recorded server, with the plan's arguments for media."""
    plan = planned_on_pytorch(FAMILY, VERSION, maxVideoFrames=FRAMES).serve
    assert plan
    at = plan.argv.index("--media_io_kwargs")
    folder = tmp_path_factory.mktemp("recorded")
    with recorded_server(folder, VERSION, arguments=plan.argv[at : at + 2]) as server:
        yield server


@pytest.fixture
async def client(tmp_path: Path, server: RecordedServer) -> AsyncIterator[httpx.AsyncClient]:
    async with toy_qwen_client(tmp_path, server, VERSION, FRAMES) as one:
        yield one


async def send(client: httpx.AsyncClient, *parts: object, **fields: object) -> httpx.Response:
    body = {"model": MODEL, "messages": [{"role": "user", "content": parts}], **fields}
    return await client.post("/v1/chat/completions", json=body)


def row(frames: list[Image.Image], **options: object) -> dict[str, Any]:
    encoded = [data_url(encode(frame)).partition(",")[2] for frame in frames]
    url = "data:video/jpeg;base64," + ",".join(encoded)
    return {"type": "video_url", "video_url": {"url": url, **options}}


def image(shown: Image.Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(encode(shown))}}


def still(seed: int, size: tuple[int, int] = (84, 56)) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), np.uint8)
    return Image.fromarray(pixels)


def seen(*frames: Image.Image) -> list[Any]:
    """Return what the server reports of a video of these frames, an odd last one twice."""
    even = [*frames, *frames[len(frames) - len(frames) % 2 :]]
    digest = hashlib.sha256(b"".join(np.asarray(one).tobytes() for one in even)).hexdigest()
    return [len(even), *even[0].size, 2.0, digest]


@pytest.mark.parametrize("count", [1, 2, 3, FRAMES])
async def test_the_server_reads_these_frames(
    client: httpx.AsyncClient, server: RecordedServer, count: int
) -> None:
    """Every value of every frame is equal, in order; an odd last one is there twice."""
    frames = [still(seed) for seed in range(count)]
    answer = (await send(client, row(frames), ORDER)).json()

    assert answer["choices"][0]["message"]["content"] == "A recorded answer about 1 videos."
    assert server.requested[-1]["videos"] == [seen(*frames)]
    # 84 x 56 are 3 x 2 features of every two frames.
    one = (await send(client, image(frames[0]), ORDER)).json()["usage"]["prompt_tokens"]
    assert answer["usage"]["prompt_tokens"] - one == 6 * (-(-count // 2) - 1)


async def test_longer_videos_are_sampled_here_alone(
    client: httpx.AsyncClient, server: RecordedServer
) -> None:
    """Of 20 frames the gateway takes 8, and the server all of those, a stream as well."""
    frames = [still(seed) for seed in range(20)]
    answer = await send(client, row(frames), ORDER, stream=True)
    assert answer.text.count("data:") > 2
    places = np.linspace(0, 19, FRAMES).round().astype(int)
    assert server.requested[-1]["videos"] == [seen(*(frames[at] for at in places))]

    coded = "data:video/mp4;base64," + data_url(video(25)).partition(",")[2]
    part = {"type": "video_url", "video_url": {"url": coded, "num_frames": 4}}
    assert (await send(client, part, ORDER)).status_code == 200
    ((count, width, height, _, _),) = server.requested[-1]["videos"]
    assert (count, width, height) == (4, 56, 56)


async def test_media_keep_their_order(client: httpx.AsyncClient, server: RecordedServer) -> None:
    """Images are videos of one frame: a server of 1.2 would put those of all requests in front."""
    one, two, three, four = map(still, range(4))
    answer = await send(client, row([one, two]), image(three), ORDER, row([four]))

    assert answer.status_code == 200, answer.text
    reported = server.requested[-1]
    assert reported["videos"] == [seen(one, two), seen(three), seen(four)]
    assert reported["images"] == []


async def test_sizes_are_those_of_the_video_processor(
    tmp_path: Path, server: RecordedServer
) -> None:
    """Images too: what is above its bound, the server would scale down."""
    most = 4 * 28**2
    files = {"video_preprocessor_config.json": {"min_pixels": 28**2, "max_pixels": most}}
    async with toy_qwen_client(tmp_path, server, VERSION, FRAMES, files) as client:
        assert (await send(client, image(still(1, (112, 112))), ORDER)).status_code == 200
    assert server.requested[-1]["videos"][0][:3] == [2, 56, 56]


async def test_too_much_is_refused_here(client: httpx.AsyncClient, server: RecordedServer) -> None:
    """More frames than planned, private addresses and paths never reach the server."""
    before = len(server.requested)
    many = row([still(1)] * 3, num_frames=FRAMES + 1)
    address = f"http://{server.address}/health"
    private = {"type": "video_url", "video_url": {"url": address}}
    local = {"type": "video_url", "video_url": {"url": "/etc/hostname"}}
    for part, param, word in (
        (many, "messages[0].content[0].video_url.num_frames", "takes at most 8 frames"),
        (private, "messages[0].content[0]", "is refused"),
        (local, "messages[0].content[0]", ""),
    ):
        refused = await send(client, part, ORDER)
        error = refused.json()["error"]
        assert (refused.status_code, error["param"]) == (400, param), error
        assert word in error["message"]
    assert len(server.requested) == before


async def test_a_model_without_videos_says_so(tmp_path: Path, server: RecordedServer) -> None:
    """Where none are planned, the gateway refuses them."""
    async with toy_qwen_client(tmp_path, server, VERSION) as client:
        error = (await send(client, row([still(1)]), ORDER)).json()["error"]
        assert "takes no video" in error["message"]


@pytest.mark.parametrize("version", ["1.1.0", "1.2.1"])
def test_servers_that_do_not_read_it_refuse(tmp_path: Path, version: str) -> None:
    """What the plan keeps away from them: older ones, a file of one frame, images among videos."""
    file = "data:video/mp4;base64," + data_url(frame_file(_pixels(2)).getvalue()).partition(",")[2]
    with recorded_server(tmp_path, version) as server:

        def status(url: str, kind: str = "video_url") -> int:
            content = [{"type": kind, kind: {"url": url}}]
            body = {"model": MODEL, "messages": [{"role": "user", "content": content}]}
            address = f"http://{server.address}/v1/chat/completions"
            return httpx.post(address, json=body, timeout=SECONDS).status_code

        assert status(file) == (200 if version == "1.2.1" else 400)
        assert status("/tmp/video.mp4") == 400
        assert status(file, "input_video") == 400
        if version == "1.2.1":
            assert status(data_url(encode(plain_image((8, 8)))), "image_url") == 400


def test_a_file_is_small() -> None:
    """Frames that resemble each other take a fraction of their pixels."""
    frames = np.stack([np.asarray(plain_image((280, 280)))] * FRAMES)
    assert len(frame_file(frames).getvalue()) < frames.nbytes / 50


def _pixels(count: int) -> NDArray[np.uint8]:
    return np.stack([np.asarray(still(seed)) for seed in range(count)])
