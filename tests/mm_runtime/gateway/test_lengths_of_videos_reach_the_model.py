"""How long a video takes goes to models that read times, and to no other."""

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from mm_edge.errors import InvalidRequestError
from mm_runtime.backends.triton_server.inputs import build_inputs
from mm_runtime.gateway.backends.engine import EngineRequest, Sampling
from mm_runtime.gateway.media.decoding.pool import Decoders
from mm_runtime.gateway.media.decoding.process import DecoderLimits
from mm_runtime.gateway.media.decoding.wire import (
    HEADER,
    BrokenAnswerError,
    Decoded,
    array_header,
    read_header,
)
from mm_runtime.gateway.media.frames import Video
from mm_runtime.gateway.media.images import VideoReference
from mm_runtime.gateway.media.video import VideoLimits, decode_video
from support.image_loaders import image_loader
from support.images import data_url, encode, plain_image
from support.unreduced import UNREDUCED
from support.video_files import video_of
from support.videos import video

LIMITS = VideoLimits(max_bytes=9_000_000, max_pixels=10_000, max_frames=4)
GREEDY = Sampling(temperature=0, top_p=1, presence_penalty=None, frequency_penalty=None, seed=0)


ROW = "data:video/jpeg;base64," + ",".join(
    base64.b64encode(encode(plain_image((8, 8), (at, 0, 0)))).decode() for at in range(6)
)


@pytest.mark.parametrize(
    ("container", "codec"),
    [
        pytest.param("mp4", "h264", id="mp4-h264"),
        pytest.param("mp4", "hevc", id="mp4-h265"),
        pytest.param("webm", "libvpx", id="webm-vp8"),
        pytest.param("webm", "libvpx-vp9", id="webm-vp9"),
    ],
)
def test_files(container: str, codec: str) -> None:
    """Fifty frames, 25 a second; how many of them are kept changes nothing."""
    assert decode_video(video(50, container, codec), LIMITS).seconds == pytest.approx(2, abs=0.005)


@pytest.fixture(scope="module")
def decoders() -> Iterator[Decoders]:
    limits = DecoderLimits(memory_bytes=512 << 20, wall_seconds=120)
    with closing(Decoders(1, limits)) as one:
        yield one


def _load(decoders: Decoders, url: str, *, reads_times: bool) -> Video:
    reference = VideoReference(url, "messages[0]")
    loader = image_loader(decoders, known_bytes=0, reads_times=reads_times)
    return asyncio.run(loader.load_video(reference, UNREDUCED, most_frames=4))


@pytest.mark.parametrize(
    ("url", "seconds"),
    [
        pytest.param(data_url(video(50), "video/mp4"), 2.0, id="mp4"),
        pytest.param(ROW, None, id="frames-in-a-row"),
    ],
)
def test_the_length_comes_back_from_the_decoder(
    decoders: Decoders, url: str, seconds: float | None
) -> None:
    """With the frames, from another process; a model that reads no times gets none."""
    found = _load(decoders, url, reads_times=True)
    assert (found.seconds, len(found.pixels)) == (seconds, 4)
    assert _load(decoders, url, reads_times=False).seconds is None


def test_longer_than_a_day(decoders: Decoders) -> None:
    """Refused of a model that reads times, where preprocessing would; taken of another one."""
    frames = [np.full((16, 16, 3), shade, np.uint8) for shade in range(6)]
    url = data_url(video_of(frames, [at * 16_000_000 for at in range(6)]), "video/mp4")
    with pytest.raises(InvalidRequestError, match="96000 seconds, more than 86400") as refusal:
        _load(decoders, url, reads_times=True)
    assert (refusal.value.code, refusal.value.param) == ("invalid_video", "messages[0]")
    assert len(_load(decoders, url, reads_times=False).pixels) == 4


@pytest.mark.parametrize("seconds", [None, 1.5, 1e9])
def test_headers_carry_a_length(seconds: float | None) -> None:
    header = array_header(Decoded(np.zeros((2, 3), np.uint8), seconds))[HEADER.size :]
    found = read_header(header, 100)
    assert isinstance(found, Decoded)
    assert (found.array.shape, found.seconds) == ((2, 3), seconds)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1, 0, "long", [1]], ids=str)
def test_a_header_with_another_length_is_none(seconds: object) -> None:
    """A decoder that was taken over says nothing that its gateway believes."""
    header = json.dumps({"shape": [1], "dtype": "uint8", "seconds": seconds}).encode()
    with pytest.raises(BrokenAnswerError):
        read_header(header, 100)


@pytest.mark.parametrize("seconds", [None, 12.5])
def test_tensors(seconds: float | None) -> None:
    """Of the request to Triton: one more input where there is a length."""
    request = EngineRequest(
        request_id="one",
        prompt="?",
        videos=(Video(np.zeros((4, 6, 8, 3), np.uint8), seconds),),
        max_tokens=4,
        sampling=GREEDY,
    )
    inputs = {one.name: one for one in build_inputs(request, newer_names=True)}
    assert inputs["video_bytes_input"].values.shape == (1, 4, 6, 8, 3)
    assert ("video_seconds_input" in inputs) == (seconds is not None)
    if seconds is not None:
        found = inputs["video_seconds_input"].values
        assert (found.dtype, found.tolist()) == (np.float32, [[seconds]])
