"""What any client may write into records of engines stops no reconcile."""

import json
from dataclasses import replace

import pytest

from mm_api.documents.trtllm_build import GpuModel
from mm_operator.model import ConfigState, EngineState, Step
from mm_operator.plan import decide
from mm_operator.plan.records import BUILT_AT_KEY, GPU_KEY, read_gpu
from support.cases import cases
from support.staged import inspected

NO_TIMES = [
    pytest.param("not a time", id="text"),
    pytest.param("2026-01-01T00:00:00", id="no-zone"),
    pytest.param("9" * 5000, id="long"),
]


@pytest.mark.parametrize("when", NO_TIMES)
def test_a_time_that_is_none_stops_nothing(when: str) -> None:
    """Also in the model's own ConfigMap: the engine counts as built some time ago."""
    snapshot, plan = inspected({}, built=True)
    engine = snapshot.observed.engines[plan.engine_config]
    config = replace(engine.config, data={**engine.config.data, BUILT_AT_KEY: when})
    observed = replace(snapshot.observed, engines={plan.engine_config: EngineState(config)})
    found = decide(replace(snapshot, observed=observed))
    assert (found.build.step, found.build.built_at) == (Step.DONE, None)


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
