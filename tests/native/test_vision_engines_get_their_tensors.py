"""What upstream's vision engines are given: names, shapes and masks of its builder."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.encode.vision import load
from mm_runtime.serving.encode.vision.builder_tensors import Patches, Pixels, Tiles
from mm_runtime.serving.encode.vision.encoder import Canvases
from mm_runtime.serving.encode.vision.runner import Inputs
from mm_runtime.serving.geometry.rotation import patch_positions
from support.native_engines import native_engine

HEAD, MERGED, LEAST = 16, 4, 128
FRAMES, ROWS, COLUMNS = 2, 4, 6
WIDTH = 8


def batch(frames: int = FRAMES) -> dict[str, NDArray[np.float32]]:
    """Return frames of one shape as Qwen2-VL's encoder brings them."""
    count = ROWS * COLUMNS
    pixels = np.arange(frames * count * WIDTH, dtype=np.float32).reshape(frames, count, WIDTH)
    positions = np.broadcast_to(patch_positions(ROWS, COLUMNS, 2), (frames, count, 2))
    return {"pixel_values": pixels, "patch_positions": positions}


def upstreams_angles(positions: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return `compute_rotary_pos_emb` of upstream's builder for these positions."""
    dimensions = HEAD // 2
    frequencies = 1.0 / (10_000.0 ** (torch.arange(0, dimensions, 2).float() / dimensions))
    full = torch.outer(torch.arange(int(positions.max()) + 1).float(), frequencies)
    angles: NDArray[np.float32] = full[torch.from_numpy(positions)].flatten(1).numpy()
    return angles


def test_patches_have_angles_and_a_mask() -> None:
    """Frames follow each other, each attends to itself, and padding to padding."""
    given = batch()
    made = Patches(HEAD, LEAST, MERGED).inputs(given)
    count = ROWS * COLUMNS
    assert {name: one.shape for name, one in made.items()} == {
        "input": (LEAST, WIDTH),
        "rotary_pos_emb": (LEAST, HEAD // 2),
        "attention_mask": (1, LEAST, LEAST),
    }
    assert np.array_equal(given["pixel_values"].reshape(-1, WIDTH), made["input"][: 2 * count])
    expected = np.tile(upstreams_angles(patch_positions(ROWS, COLUMNS, 2)), (FRAMES, 1))
    assert np.allclose(expected, made["rotary_pos_emb"][: 2 * count], rtol=0, atol=1e-6)
    mask = np.full((LEAST, LEAST), np.finfo(np.float16).min, dtype=np.float16)
    for start, end in ((0, count), (count, 2 * count), (2 * count, LEAST)):
        mask[start:end, start:end] = 0
    assert np.array_equal(mask, made["attention_mask"][0])


def test_padding_leaves_the_features() -> None:
    """Features come back frame by frame, without those of the padding."""
    rows = np.arange(LEAST // MERGED, dtype=np.float32)[:, None] * np.ones((1, 3), np.float32)
    features = Patches(HEAD, LEAST, MERGED).features(batch(), rows)
    count = ROWS * COLUMNS // MERGED
    assert features.shape == (FRAMES, count, 3)
    assert features[:, :, 0].reshape(-1).tolist() == list(range(FRAMES * count))


def test_large_batches_need_no_padding() -> None:
    """As many patches as the images have, when the engine takes so many."""
    made = Patches(HEAD, LEAST, MERGED).inputs(batch(frames=8))
    assert len(made["input"]) == 8 * ROWS * COLUMNS


def test_tiles_have_an_axis_of_images() -> None:
    """Llama 3.2 Vision's engine was exported with one image an entry."""
    given = {
        "pixel_values": np.zeros((2, 4, 3, 28, 28), np.float32),
        "aspect_ratio_ids": np.zeros((2,), np.int64),
        "aspect_ratio_mask": np.zeros((2, 4), np.int64),
    }
    tiles = Tiles()
    shapes = {name: one.shape for name, one in tiles.inputs(given).items()}
    assert shapes == {
        "pixel_values": (2, 1, 4, 3, 28, 28),
        "aspect_ratio_ids": (2, 1),
        "aspect_ratio_mask": (2, 1, 4),
    }
    assert tiles.features(given, np.zeros((2, 1, 4, 5, 8), np.float32)).shape == (2, 20, 8)


@pytest.mark.parametrize("count", [1, 3])
def test_squares_have_one_input(count: int) -> None:
    pixels = np.zeros((count, 3, 28, 28), np.float32)
    assert list(Pixels().inputs({"pixel_values": pixels})) == ["input"]


def test_images_of_llama_run_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the engine was built for: TensorRT holds the memory of such a run all the time."""
    engine, _ = native_engine("mllama", vision={"maxBatchSize": 3})
    plan, runs = engine.plan.engine.vision, list[int]()
    assert plan

    def run(inputs: Inputs) -> NDArray[np.float32]:
        runs.append(len(inputs["pixel_values"]))
        return np.zeros((runs[-1], 4, 8), np.float32)

    monkeypatch.setattr(load, "open_tensorrt", lambda *_, **__: run)
    encoder = load.load_encoder(EngineDirectory(tmp_path, engine), plan)
    ones = [np.ones(shape, np.int64) for shape in ((4,), (4, 4), (1, 4, 4))]
    encoder.encode([Canvases(np.zeros((4, 4, 3, 2, 2), np.float32), *ones)])
    assert runs == [3, 1]
