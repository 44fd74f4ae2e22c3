"""Features that leave a tower's process in 16 bits are those that a hand-over on a GPU makes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mm_runtime.serving.device import CPU, as_tensor
from mm_runtime.serving.encode.hand_over import HandOver
from mm_runtime.serving.encode.vision.cache import FeatureCache
from mm_runtime.serving.encode.vision.torch_runner import TorchRunner
from mm_runtime.serving.tensors import BFLOAT16_BITS, of_bfloat16

TABLE = "OUT_PROMPT_EMBEDDING_TABLE"


class Tower(torch.nn.Module):
    """Features of each image: its pixels, times what gives them more digits than 16 bits have."""

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        return pixel_values[:, 0] * 1.00390625001


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.pt2"
    sample = {"pixel_values": torch.zeros(2, 3, 8, 8)}
    torch.export.save(torch.export.export(Tower(), (), sample), path)
    return path


def pixels() -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype(np.float32)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_they_are_those_of_one_pod(model: Path, dtype: str) -> None:
    expected = HandOver(CPU, dtype, announced=False).place(
        {TABLE: as_tensor(TorchRunner(model)({"pixel_values": pixels()}), CPU)}
    )[TABLE]
    runner = TorchRunner(model, leave_as=dtype)
    cache = FeatureCache(1 << 20)
    for _ in range(2):
        found = cache.through({"pixel_values": pixels()}, runner)
        assert found.dtype == getattr(torch, dtype)
        assert torch.equal(found.view(torch.int16), expected.view(torch.int16))
        cache.settle()
    assert cache.counts.hits == 2


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable:UserWarning")
def test_bits_become_tensors_as_they_are() -> None:
    """Every value of bfloat16, NaN included, of memory that is read only."""
    bits = np.frombuffer(np.arange(1 << 16, dtype=np.uint16).tobytes(), BFLOAT16_BITS)
    found = as_tensor(bits, CPU)
    assert found.dtype == torch.bfloat16
    assert np.array_equal(found.view(torch.int16).numpy(), bits.view(np.int16))
    finite = np.isfinite(of_bfloat16(bits))
    assert np.array_equal(found.float().numpy()[finite], of_bfloat16(bits)[finite])
