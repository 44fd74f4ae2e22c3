"""The GPU of the last plan is read from a ConfigMap, which a tenant may patch."""

import json

from mm_api.documents.trtllm_build import GpuModel
from mm_operator.model import ConfigState
from mm_operator.plan.records import GPU_KEY, read_gpu
from support.cases import cases

GPU = GpuModel(product="NVIDIA-L4", memory_bytes=23 << 30, compute_capability="8.9")


def recorded(**changed: object) -> ConfigState:
    written = {**json.loads(GPU.to_json()), **changed}
    return ConfigState(name="llava-facts", uid="1", data={GPU_KEY: json.dumps(written)})


def test_a_recorded_gpu_is_read_back() -> None:
    assert read_gpu(recorded()) == GPU


@cases(
    "changed",
    {
        "product-is-no-label-value": {"product": "a b"},
        "product-is-too-long": {"product": "x" * 64},
        "no-memory": {"memoryBytes": 0},
        "more-memory-than-any-gpu": {"memoryBytes": (1 << 40) + 1},
        "capability-is-no-number": {"computeCapability": "nine"},
        "capability-has-three-parts": {"computeCapability": "9.0.0"},
    },
)
def test_a_record_beyond_the_bounds_counts_as_lost(changed: dict[str, object]) -> None:
    """A forged GPU neither sizes an engine nor selects a node."""
    assert read_gpu(recorded(**changed)) is None
