"""Features of images go to vLLM as files, which stay while a request may be in a step."""

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from mm_edge.errors import GatewayError
from mm_runtime.backends.openai_server.client import OpenAiServerEngine
from mm_runtime.backends.vllm.client import VllmDialect
from mm_runtime.backends.vllm.features import FILE, LEAVING_SECONDS, FeatureFolder, HandOver
from mm_runtime.gateway.backends.engine import LIKELIEST, EngineRequest
from mm_runtime.gateway.media.as_sent import as_sent
from mm_runtime.images.normalisation import Bytes
from mm_runtime.serving.encode.disaggregated.client import EncoderError, FallbackReason
from mm_runtime.serving.encode.disaggregated.responses import TABLE
from mm_runtime.serving.preprocess.processors.grids import GridProcessor
from mm_runtime.serving.preprocess.processors.prepared import Colours
from support.http_servers import Exchange, serve_local
from support.images import encode

ROWS = np.arange(32, dtype=np.float32).reshape(4, 8)
ONE = 4096 + 256
"""Bytes of an image at the most: its folder, and a file of `ROWS`."""

IMAGE: Bytes = np.arange(28 * 56 * 3, dtype=np.uint8).reshape(28, 56, 3)


class Encoders:
    """Answers with as many rows as are wanted; or fails."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.seen: list[Any] = []

    def encode(self, inputs: Any, _trace: object) -> Any:
        self.seen.append(inputs)
        if self.error is not None:
            raise self.error
        rows = inputs["vision_input_id"].shape[1]
        return {TABLE: np.full((1, rows, 8), rows, np.float32)}


class Clock:
    """A time that is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def handing(root: Path, encoders: Encoders) -> HandOver:
    processor = GridProcessor(Colours((0,) * 3, (1,) * 3, 1, 3), 14, 1, 14**2, 28**2 * 4)  # type: ignore[arg-type]
    return HandOver(FeatureFolder(root, 1 << 20), encoders, processor, 100, threading.Semaphore())


def test_vllm_reads_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    folder = FeatureFolder(tmp_path, 2 * ONE)
    assert not folder.hold("a")
    assert folder.write("a", ROWS)
    assert folder.hold("a")
    (found,) = load_file(tmp_path / "a" / FILE).items()
    assert found[0] == "ec_cache"
    np.testing.assert_array_equal(found[1], ROWS)
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "left"])
def test_files_stay_while_a_step_may_read_them(tmp_path: Path, *, answered: bool) -> None:
    """Room is made of images that no request needs, some time after a client has left."""
    clock = Clock()
    folder = FeatureFolder(tmp_path, ONE, clock)
    folder.hold("a")
    assert folder.write("a", ROWS)
    folder.hold("b")
    assert not folder.write("b", ROWS)
    folder.release("a", answered=answered)
    assert folder.write("b", ROWS) is answered
    clock.now = LEAVING_SECONDS
    assert folder.write("b", ROWS)
    assert [one.name for one in tmp_path.iterdir()] == ["b"]


def test_a_file_that_several_requests_write_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Questions about one image that come together would fill the folder with it."""
    folder, replace = FeatureFolder(tmp_path, 3 * ONE), os.replace

    def beside_another(*paths: Any) -> None:
        monkeypatch.setattr(os, "replace", replace)
        other = threading.Thread(target=folder.write, args=("a", ROWS))
        other.start()
        other.join()
        replace(*paths)

    monkeypatch.setattr(os, "replace", beside_another)
    folder.hold("a")
    assert folder.write("a", ROWS)
    assert folder._kept["a"].size == 4096 + (tmp_path / "a" / FILE).stat().st_size


def test_an_image_is_encoded_once(tmp_path: Path) -> None:
    encoders = Encoders()
    hand_over = handing(tmp_path, encoders)
    hand_over.hold(["a", "b"], [IMAGE, IMAGE[:, :28]], "salt")
    hand_over.hold(["a"], [IMAGE], "salt")
    assert [len(load_file(tmp_path / one / FILE)["ec_cache"]) for one in "ab"] == [8, 4]
    assert [one["cache_salt"].item() for one in encoders.seen] == [b"salt", b"salt"]
    file = encode(Image.fromarray(IMAGE))
    hand_over.hold(["file"], [as_sent(IMAGE.shape, file, "image/png")], "salt")
    first, *_, last = encoders.seen
    assert all(np.array_equal(first[one], last[one]) for one in first)
    encoders.error = EncoderError(FallbackReason.ABSENT, "there is none")
    hand_over.hold(["c"], [IMAGE], "")
    assert not (tmp_path / "c" / FILE).exists()


@pytest.mark.parametrize("error", [None, ValueError("a fault")], ids=["refused", "fault"])
async def test_a_failed_request_releases_its_images(
    tmp_path: Path, error: Exception | None
) -> None:
    encoders = Encoders()
    hand_over = handing(tmp_path, encoders)
    encoders.error = error

    async def refuse(exchange: Exchange) -> None:
        await exchange.answer(503, b"{}")

    request = EngineRequest(prompt="a", sampling=LIKELIEST, max_tokens=2, images=(IMAGE,))
    async with serve_local(refuse) as server:
        engine = OpenAiServerEngine(
            f"127.0.0.1:{server.port}",
            VllmDialect("tiny", features=hand_over),
            request_seconds=60,
        )
        with pytest.raises((GatewayError, ValueError)):
            _ = [event async for event in engine.generate(request)]
        await engine.close()
    assert [one.users for one in hand_over.folder._kept.values()] == [0]
