"""`spec.runtime.gpu.count: 1` with backend Reference means CUDA: bytes, pools, pods, refusals."""

from collections.abc import Mapping
from typing import Any

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.trtllm_build import GpuModel
from mm_operator.children.hardware import building_gpu, encoder_gpu, planned_gpu
from mm_operator.model import EnginePlan
from mm_operator.plan.engine.plan import Refusal, plan_engine
from mm_operator.plan.engine.request import Inputs
from mm_operator.plan.engine.tables import gpu_of
from support.golden import Golden
from support.model_documents import merged
from support.models import llava_7b_facts, spec_of, tiny_facts

H100 = gpu_of("h100-80gb")
ON_GPU = {"runtime": {"gpu": {"count": 1}}}
TORCH = {"vision": {"engine": "Torch"}}


def found(
    facts: ModelFacts, changes: Mapping[str, Any] | None = None, gpu: GpuModel | None = H100
) -> EnginePlan | Refusal:
    spec = spec_of(merged(ON_GPU, changes or {}))
    return plan_engine(Inputs(model="m", spec=spec, facts=facts, builder_version="1", gpu=gpu))


def shown(plan: EnginePlan | Refusal) -> dict[str, Any]:
    if isinstance(plan, Refusal):
        return {"refused": [f"{one.path}: {one.message}" for one in plan.problems]}
    spec, serving = spec_of(ON_GPU), plan.serving_plan
    return {
        "device": serving.device,
        "pools": serving.pools.model_dump(),
        "sharing": serving.sharing and serving.sharing.model_dump(),
        "memory": [one.model_dump() for one in plan.memory.per_gpu],
        "featureCacheBytes": plan.memory.host.feature_cache_bytes,
        "requests": [plan.serving_plan.gateway.max_concurrency, plan.pool.live_requests],
        "gpus": {
            "server": planned_gpu(spec, plan).count,
            "encoder": encoder_gpu(spec, plan).count,
            "build": building_gpu(spec, plan).count,
        },
        "warnings": [one.code for one in plan.warnings],
        "fit": [plan.fit.verdict, plan.fit.message, *map(str, plan.fit.suggestions)],
    }


def of_vision(engine: str = "Torch", **fields: object) -> dict[str, Any]:
    return {"vision": {"engine": engine, **fields}}


SEVEN_BILLION = merged(TORCH, {"engine": {"maxBatchSize": 16, "maxSeqLen": 1024}})
LIMITED = {"runtime": {"resources": {"limits": {"memory": "1Gi"}}}}
NO_GPU = {"runtime": {"gpu": {"count": 0}}}
LARGE = {**TORCH, "engine": {"maxBatchSize": 64}}
KEPT = {"featureCacheBytes": "512Mi"}
DISAGGREGATED = {"placement": "Disaggregated"}
TINY: dict[str, dict[str, Any]] = {
    "encoder of ONNX": {},
    "encoder of Torch": TORCH,
    "another share": of_vision(threadPercentage=40),
    "in turns": of_vision(sharing="TimeSlicing"),
    "features are kept": of_vision(**KEPT),
    "features of ONNX are kept": of_vision("ONNXRuntime", **KEPT),
    "disaggregated encoders": of_vision(**DISAGGREGATED),
    "disaggregated encoders keep features": of_vision(**KEPT, **DISAGGREGATED),
    "disaggregated encoders of ONNX": {"vision": DISAGGREGATED},
    "two GPUs": {"runtime": {"gpu": {"count": 2}}},
    "pinned pool": {"runtime": {"memoryPools": {"pinned": "256Mi"}}},
    "nothing to share": {"vision": {"sharing": "MPS"}},
    "share of nothing": {"vision": {"threadPercentage": 30}},
}


def test_plans_are_as_recorded(golden: Golden) -> None:
    """Each process has its context, and fields without an effect are refused by name."""
    large = llava_7b_facts()
    plans = {
        **{name: found(tiny_facts(), changes) for name, changes in TINY.items()},
        "no GPU": found(tiny_facts(), NO_GPU, gpu=None),
        "7 B": found(large, SEVEN_BILLION),
        "7 B, too much for the GPU": found(large, LARGE, gpu=gpu_of("l4-24gb")),
        "7 B, too little host memory": found(large, LIMITED),
    }
    golden.check_yaml(
        "reference/on-a-gpu.yaml", {name: shown(plan) for name, plan in plans.items()}
    )


def test_the_engine_is_the_processors() -> None:
    """The device changes how an engine is served and no byte of it: models share the build."""
    plans = (found(tiny_facts()), found(tiny_facts(), NO_GPU, gpu=None))
    prints = {one.build_plan.fingerprint for one in plans if isinstance(one, EnginePlan)}
    assert len(prints) == 1
