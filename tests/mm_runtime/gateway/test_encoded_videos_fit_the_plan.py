"""Backend PyTorch: videos that are encoded and sent on take no more memory than is planned."""

import asyncio
import gc
import io
import subprocess
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from mm_api.gateway_memory import encoding_bytes
from mm_runtime.base.heap import return_large_pieces
from mm_runtime.gateway.media.encoding_memory import EncodingMemory
from mm_runtime.gateway.media.frame_file import memory_bytes
from support.gateways import MODEL, toy_serving
from support.recorded_server import RecordedServer, recorded_server
from support.toy_qwen import toy_qwen_client

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

VERSION = "1.2.1"
REQUESTS = 6
SIDE = 1_400
FEATURES = (SIDE // 28) ** 2
FRAMES = 2
LIMITS: dict[str, object] = {
    "max_concurrency": REQUESTS,
    "max_queue_size": REQUESTS,
    "max_image_bytes": 20 << 20,
    "request_timeout_seconds": 240,
}
SLACK = 64 << 20
"""Of JSON, tokens, and what an allocator keeps."""


_PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from mm_runtime.base.heap import return_large_pieces
from mm_runtime.gateway.media.frame_file import frame_file, memory_bytes


def state(word):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(word))


return_large_pieces()
count, side = map(int, sys.argv[1:])
frames = np.random.default_rng(count).integers(0, 256, (count, side, side, 3), np.uint8)
frame_file(frames[:1, :64, :64])
Path("/proc/self/clear_refs").write_text("5")
rest = state("VmRSS")
frame_file(frames)
print(state("VmHWM") - rest, memory_bytes(frames))
"""
"""Makes a file of frames of noise; prints the memory that it took, and what it counts as."""


def _state(word: str) -> int:
    """Return a number of this process's memory, in bytes: VmRSS, or the most so far, VmHWM."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(word))


def _begin() -> int:
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return _state("VmRSS")


def _video() -> dict[str, object]:
    frames = []
    shape = (FRAMES, SIDE, SIDE, 3)
    for pixels in np.random.default_rng(FRAMES).integers(0, 256, shape, np.uint8):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG")
        frames.append(b64encode(file.getvalue()).decode())
    return {"type": "video_url", "video_url": {"url": "data:video/jpeg;base64," + ",".join(frames)}}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RecordedServer]:
    with recorded_server(tmp_path, VERSION) as server:
        yield server


@pytest.fixture
async def client(tmp_path: Path, server: RecordedServer) -> AsyncIterator[httpx.AsyncClient]:
    files = {"video_preprocessor_config.json": {"min_pixels": 28**2, "max_pixels": SIDE**2}}
    async with toy_qwen_client(
        tmp_path, server, VERSION, FRAMES, files, features=4 * FEATURES, **LIMITS
    ) as client:
        yield client


async def test_all_at_once(client: httpx.AsyncClient, server: RecordedServer) -> None:
    """Six large videos: what the gateway takes besides their pixels is what the plan says."""
    return_large_pieces()
    client.timeout = httpx.Timeout(240)
    content = [_video(), {"type": "text", "text": "order: none"}]
    body = {"model": MODEL, "messages": [{"role": "user", "content": content}], "max_tokens": 2}
    (await client.post("/v1/chat/completions", json=body)).raise_for_status()
    rest = _begin()
    answers = await asyncio.gather(
        *(client.post("/v1/chat/completions", json=body) for _ in range(REQUESTS))
    )
    taken = _state("VmHWM") - rest
    assert [answer.status_code for answer in answers] == [200] * REQUESTS
    assert server.requested[-1]["videos"][0][:3] == [FRAMES, SIDE, SIDE]
    plan = toy_serving(max_video_frames=FRAMES, **LIMITS).gateway
    pixels = REQUESTS * FRAMES * SIDE * SIDE * 3
    # Each body is there as its client has it, too, as it came, and as what was read of it.
    bodies = 4 * REQUESTS * len(str(content))
    assert taken <= encoding_bytes(plan) + pixels + bodies + SLACK


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_file_takes_what_it_counts_as(count: int) -> None:
    """Noise, which no encoder makes smaller, in a process that has no freed memory of others."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *map(str, (count, SIDE))],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    taken, counted = map(int, done.stdout.split())
    assert counted / 2 < taken <= counted


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


def test_a_low_limit_of_images_leaves_room_for_long_videos() -> None:
    """128 frames of 768 x 768, below the limit each, where one image may have a million pixels."""
    plan = toy_serving(max_video_frames=128, max_image_pixels=10**6, **LIMITS).gateway
    frames = np.broadcast_to(np.uint8(0), (128, 768, 768, 3))
    EncodingMemory(encoding_bytes(plan)).check(memory_bytes(frames))
