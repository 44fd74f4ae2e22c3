"""What TensorRT-LLM's backend gets of an encoder on a GPU, where it reads GPU tensors.

Run with `pytest -m gpu tests/gpu`. Neither TensorRT nor its backend is in it.
"""

from typing import Any

import numpy as np
import pytest
import torch

from mm_runtime.serving.encode.placing import placing
from support.native_engines import native_engine

pytestmark = pytest.mark.gpu

TABLE = "OUT_PROMPT_EMBEDDING_TABLE"


@pytest.mark.parametrize("inputs", [{}, {"host_features": np.array([[True]])}], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_features_leave_where_they_are_wanted(dtype: str, inputs: dict[str, Any]) -> None:
    """On the GPU, and in host memory for `tensorrt_llm_bls`; in the engine's type either way."""
    spec: dict[str, Any] = {"runtime": {"memoryPools": {"pinned": "0"}}}
    engine, serving = native_engine("llava", {"dtype": dtype}, **spec)
    rows = np.linspace(-1, 1, 6 * 8, dtype=np.float32).reshape(1, 6, 8)
    placed: list[Any] = []
    place = placing(serving, engine)(inputs, placed.append)

    tensors: list[Any] = [rows, torch.from_numpy(rows).cuda()]
    for given in tensors:
        place({TABLE: given})

    for outputs in placed:
        assert outputs.keys() == {TABLE}
        assert outputs[TABLE].is_cuda is not bool(inputs)
        assert torch.equal(torch.from_numpy(rows).to(getattr(torch, dtype)), outputs[TABLE].cpu())
