"""The container of every server is limited to all that the plan counts, and a margin."""

from dataclasses import replace
from typing import Any

from mm_api.documents.serving_plan import MemoryPools
from mm_api.v1alpha1 import Resources, RuntimeGpu
from mm_operator.children import pod
from mm_operator.plan.engine.container_memory import (
    CUDA_PROCESS_BYTES,
    INSTANCE_BYTES,
    PROCESS_BYTES,
    TRTLLM_PROCESS_BYTES,
    memory_limit,
)
from mm_operator.plan.engine.request import Inputs
from mm_operator.plan.engine.tables import gpu_of
from mm_operator.status.derive import plan_summary
from support.cases import cases
from support.model_configs import facts_of, inputs_of, planned_engine, reference_inputs
from support.models import tiny_facts

_MIB = 1 << 20
ON_A_GPU = replace(
    reference_inputs(facts_of("llava"), {"runtime": {"gpu": {"count": 1}}}), gpu=gpu_of("h100-80gb")
)
ON_PYTORCH = inputs_of("qwen2-vl", {"backend": "PyTorch"}, version="1.2.1", model={})
COUNTS = {"preprocessingInstanceCount": 3, "postprocessingInstanceCount": 2}
WITH_PROCESSES = reference_inputs(facts_of("llava"), {"runtime": {"triton": COUNTS}})
PLANNED = {"memory": "1001Mi"}
REQUESTED = {"cpu": "500m", "memory": "700Mi"}


@cases(
    "stated expected",
    {
        "the-plans": ({}, {"requests": REQUESTED, "limits": PLANNED}),
        "the-specs": (
            {"limits": {"memory": "2Gi"}},
            {"requests": {"cpu": "500m"}, "limits": {"memory": "2Gi"}},
        ),
        "none": ({"limits": {"memory": 0}}, {"requests": REQUESTED}),
        "none-with-a-unit": ({"limits": {"memory": "0Mi"}}, {"requests": REQUESTED}),
        "beside-another-limit": (
            {"limits": {"cpu": 2}},
            {"requests": {"memory": "700Mi"}, "limits": {"cpu": "2", **PLANNED}},
        ),
        "no-less-than-the-specs-request": (
            {"requests": {"memory": "2Gi"}},
            {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"memory": "2048Mi"}},
        ),
    },
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


@cases(
    "inputs copies contexts",
    {
        "on-the-processor": (reference_inputs(facts_of("llava")), 0, 0),
        "grids": (reference_inputs(facts_of("qwen2-vl")), 0, 0),
        "encoder-decoder": (reference_inputs(facts_of("t5")), 1, 0),
        "recordings": (reference_inputs(facts_of("whisper")), 1, 0),
        "cross-attention": (reference_inputs(facts_of("mllama")), 1, 0),
        "the-checkpoints-own-class": (reference_inputs(facts_of("generic")), 1, 0),
        "further-processes-of-triton": (WITH_PROCESSES, 0, 3 * INSTANCE_BYTES),
        "on-a-gpu": (ON_A_GPU, 1, 2 * CUDA_PROCESS_BYTES),
        "tensorrt-llm": (inputs_of("llava"), 1, 3 * TRTLLM_PROCESS_BYTES),
        "pytorch": (ON_PYTORCH, 2, 3 * TRTLLM_PROCESS_BYTES),
    },
)
def test_every_server_has_a_limit(inputs: Inputs, *, copies: int, contexts: int) -> None:
    """Above what steps were compared with it has copies of the weights and CUDA's own memory."""
    engine = planned_engine(inputs)
    host, pools = engine.memory.host, engine.serving_plan.pools
    needed = host.total_bytes + host.step_bytes + host.loading_bytes + host.process_bytes

    assert host.loading_bytes >= copies * 0.9 * host.weights_bytes
    assert host.process_bytes == PROCESS_BYTES + contexts
    assert host.step_bytes
    assert abs(host.planned_limit_bytes - memory_limit(needed, pools)) <= 1
    assert plan_summary(engine, "").server_limit_bytes == host.planned_limit_bytes


def test_larger_batches_raise_it_by_more_than_their_caches() -> None:
    """What a step computes in is no part of the plan's total, and of the limit it is."""
    plain, larger = (
        planned_engine(reference_inputs(tiny_facts(), {"engine": {"maxBatchSize": batch}}))
        for batch in (8, 16)
    )
    first, second = plain.memory.host, larger.memory.host

    assert first.planned_limit_bytes > first.total_bytes + PROCESS_BYTES
    added = second.planned_limit_bytes - first.planned_limit_bytes
    assert added > (second.total_bytes - first.total_bytes) * 9 // 8
