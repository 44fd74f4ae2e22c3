"""The container of a server without a GPU is limited to all that the plan counts, and a margin."""

from dataclasses import replace
from typing import Any

import pytest

from mm_api.documents.serving_plan import MemoryPools
from mm_api.v1alpha1 import Resources, RuntimeGpu
from mm_operator.children import pod
from mm_operator.children.hardware import host_limit
from mm_operator.plan.engine.host_memory import PROCESS_BYTES, memory_limit
from mm_operator.plan.engine.tables import gpu_of
from mm_operator.plan.engine.target import Inputs
from support.model_configs import facts_of, inputs_of, planned_engine, reference_inputs
from support.models import tiny_facts

_MIB = 1 << 20
NO_POOLS = MemoryPools(cuda_bytes=0, pinned_bytes=0, shm_bytes=0)
PLANNED = {"memory": "1001Mi"}
REQUESTED = {"cpu": "500m", "memory": "700Mi"}


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        pytest.param({}, {"requests": REQUESTED, "limits": PLANNED}, id="the-plans"),
        pytest.param(
            {"limits": {"memory": "2Gi"}},
            {"requests": {"cpu": "500m"}, "limits": {"memory": "2Gi"}},
            id="the-specs",
        ),
        pytest.param({"limits": {"memory": 0}}, {"requests": REQUESTED}, id="none"),
        pytest.param({"limits": {"memory": "0Mi"}}, {"requests": REQUESTED}, id="none-with-a-unit"),
        pytest.param(
            {"limits": {"cpu": 2}},
            {"requests": {"memory": "700Mi"}, "limits": {"cpu": "2", **PLANNED}},
            id="beside-another-limit",
        ),
        pytest.param(
            {"requests": {"memory": "2Gi"}},
            {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"memory": "2048Mi"}},
            id="no-less-than-the-specs-request",
        ),
    ],
)
def test_the_limit(stated: dict[str, Any], expected: dict[str, Any]) -> None:
    """The plan's, unless the spec states one; 0 is none, and what is requested stays."""
    found = pod.compute(
        Resources.model_validate(stated),
        gpu=RuntimeGpu(),
        defaults=REQUESTED,
        memory_limit=1000 * _MIB + 1,
    )

    assert expected == found


def test_every_bound_counts() -> None:
    """Files in /dev/shm and outputs without a GPU lie in the container's memory; an eighth more."""
    pools = MemoryPools(cuda_bytes=64 * _MIB, pinned_bytes=256 * _MIB, shm_bytes=480 * _MIB)
    assert memory_limit(800 * _MIB, pools) == 1800 * _MIB


@pytest.mark.parametrize(
    ("inputs", "is_planned"),
    [
        pytest.param(reference_inputs(facts_of("llava")), True, id="on-the-processor"),
        pytest.param(reference_inputs(facts_of("qwen2-vl")), True, id="grids"),
        pytest.param(
            replace(
                reference_inputs(facts_of("llava"), {"runtime": {"gpu": {"count": 1}}}),
                gpu=gpu_of("h100-80gb"),
            ),
            False,
            id="on-a-gpu",
        ),
        pytest.param(inputs_of("llava"), False, id="an-engine-of-tensorrt-llm"),
        pytest.param(reference_inputs(facts_of("t5")), False, id="encoder-decoder"),
        pytest.param(reference_inputs(facts_of("generic")), False, id="the-checkpoints-own-class"),
    ],
)
def test_a_limit_is_planned_where_every_term_is(inputs: Inputs, *, is_planned: bool) -> None:
    """A limit that leaves a term out would end the container of a model that runs today."""
    assert (host_limit(planned_engine(inputs), NO_POOLS) is not None) == is_planned


def test_larger_batches_raise_it_by_more_than_their_caches() -> None:
    """What a step computes in is no part of the plan's total, and of the limit it is."""
    plain, larger = (
        planned_engine(reference_inputs(tiny_facts(), {"engine": {"maxBatchSize": batch}}))
        for batch in (8, 16)
    )
    limits = [host_limit(one, NO_POOLS) or 0 for one in (plain, larger)]
    totals = [one.memory.host.total_bytes for one in (plain, larger) if one.memory.host]

    assert limits[0] > totals[0] + PROCESS_BYTES
    assert limits[1] - limits[0] > (totals[1] - totals[0]) * 9 // 8
