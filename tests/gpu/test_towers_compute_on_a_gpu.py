"""Vision halves on a GPU: float16 and CUDA graphs for every number of images.

Run with `pytest -m gpu tests/gpu`.
"""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from mm_runtime.engine_build.commands.export_vision import write_program
from mm_runtime.engine_build.commands.towers import load_tower
from mm_runtime.engine_build.commands.towers.fusing import fuse
from mm_runtime.images.normalisation import Normalisation
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.serving.device import open_device
from mm_runtime.serving.encode.vision.torch_runner import TorchRunner
from support.families.images import write

pytestmark = [
    pytest.mark.gpu,
    # Older torch warns when it reads an exported program.
    pytest.mark.filterwarnings("ignore:The given (buffer|NumPy array) is not writable:UserWarning"),
]

RUN_IN_TURN = (3, 1, 8, 2, 9, 5, 1)
"""Images of runs: sizes of graphs, between them, and more than the largest holds."""


@pytest.fixture(scope="module", params=["llava", "vila"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write(request.param, tmp_path_factory.mktemp("family") / request.param)
    tower = load_tower(folder, inspect(folder, InspectOptions()), trust_remote_code=False)
    fuse(tower.module)
    write_program(tower, folder / "model.pt2")
    return folder / "model.pt2"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_features_are_those_of_the_processor(model: Path, dtype: torch.dtype) -> None:
    """Each run in its own way, none disturbed by the one before."""
    half = dtype == torch.float16
    here = TorchRunner(model)
    there = TorchRunner(model, device=open_device("CUDA"), keeps=True, half=half, graphs=16)
    assert sorted(there._passes) == [1, 2, 4, 8]
    side = there._pixels.shape[-1]
    kept = []
    for number, count in enumerate(RUN_IN_TURN):
        chance = np.random.default_rng(number)
        pixels = chance.uniform(-2.0, 2.7, (count, 3, side, side)).astype(np.float32)
        kept.append((here({"pixel_values": pixels}), there({"pixel_values": pixels})))

    for wanted, found in kept:
        assert found.is_cuda
        assert found.dtype == dtype
        distance = np.linalg.norm(found.float().cpu().numpy() - wanted) / np.linalg.norm(wanted)
        assert distance < (5e-3 if half else 1e-5)


def test_a_tower_beyond_float16_stays_in_float32(
    model: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mm_runtime.serving.encode.vision.torch_runner.HALF_DISTANCE", 1e-7)
    with caplog.at_level(logging.WARNING):
        runner = TorchRunner(model, device=open_device("CUDA"), keeps=True, half=True, graphs=4)

    found = runner({"pixel_values": np.zeros((1, 3, *runner._pixels.shape[2:]), np.float32)})

    assert found.dtype == torch.float32
    assert "the vision encoder computes in float32" in caplog.text


NORMALISATION = Normalisation((0.48, 0.46, 0.41), (0.27, 0.26, 0.28), 1 / 255)


@pytest.mark.parametrize("graphs", [0, 16], ids=["kernels", "graphs"])
def test_bytes_are_normalised_on_the_gpu(model: Path, graphs: int) -> None:
    """Features are those of the values that the processor makes of the same bytes, bit for bit."""
    there = TorchRunner(
        model,
        device=open_device("CUDA"),
        keeps=True,
        half=True,
        graphs=graphs,
        normalisation=NORMALISATION,
    )
    side = TorchRunner(model, device=open_device("CUDA"), graphs=1)._pixels.shape[-1]
    for number, count in enumerate(RUN_IN_TURN):
        chance = np.random.default_rng(number)
        images = chance.integers(0, 256, (count, side, side, 3), dtype=np.uint8)
        values = NORMALISATION.of_images(images)

        wanted, found = (there({"pixel_values": one}) for one in (values, images))

        assert torch.equal(wanted, found)
