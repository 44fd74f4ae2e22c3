"""The GPU of the last plan is read from a ConfigMap, which a tenant may patch."""

import json

import pytest

from mm_api.documents.trtllm_build import GpuModel
from mm_operator.model import ConfigState
from mm_operator.plan.records import GPU_KEY, read_gpu

GPU = GpuModel(product="NVIDIA-L4", memory_bytes=23 << 30, compute_capability="8.9")


def recorded(**changed: object) -> ConfigState:
    """Return a ConfigMap that holds the GPU with some fields replaced."""
    written = {**json.loads(GPU.to_json()), **changed}
    return ConfigState(name="llava-facts", uid="1", data={GPU_KEY: json.dumps(written)})


def test_a_recorded_gpu_is_read_back() -> None:
    """What the operator wrote, it reads."""
    assert read_gpu(recorded()) == GPU


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"product": "a b"}, id="product-is-no-label-value"),
        pytest.param({"product": "x" * 64}, id="product-is-too-long"),
        pytest.param({"memoryBytes": 0}, id="no-memory"),
        pytest.param({"memoryBytes": (1 << 40) + 1}, id="more-memory-than-any-gpu"),
        pytest.param({"computeCapability": "nine"}, id="capability-is-no-number"),
        pytest.param({"computeCapability": "9.0.0"}, id="capability-has-three-parts"),
    ],
)
def test_a_record_beyond_the_bounds_counts_as_lost(changed: dict[str, object]) -> None:
    """A forged GPU neither sizes an engine nor selects a node."""
    assert read_gpu(recorded(**changed)) is None
