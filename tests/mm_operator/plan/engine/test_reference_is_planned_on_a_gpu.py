"""`spec.runtime.gpu.count: 1` with backend Reference means CUDA: bytes, pools, pods, refusals."""

from collections.abc import Mapping
from typing import Any

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.trtllm_build import GpuModel
from mm_api.v1alpha1.quantity import bytes_of
from mm_operator.children.hardware import building_gpu, encoder_gpu, planned_gpu
from mm_operator.model import EnginePlan
from mm_operator.plan.engine.plan import Refusal, plan_engine
from mm_operator.plan.engine.tables import gpu_of
from mm_operator.plan.engine.target import Inputs
from support.cases import cases
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


def planned(facts: ModelFacts, changes: Mapping[str, Any] | None = None) -> EnginePlan:
    plan = found(facts, changes)
    assert isinstance(plan, EnginePlan), plan
    return plan


def refused(changes: Mapping[str, Any]) -> list[tuple[str, str]]:
    refusal = found(tiny_facts(), changes)
    assert isinstance(refusal, Refusal)
    return [(one.path, one.message) for one in refusal.problems]


def test_pods_compute_with_cuda() -> None:
    """The serving plan says so, and pods take one GPU of the planned product; builds take none."""
    plan = planned(tiny_facts(), TORCH)

    assert plan.serving_plan.device == "CUDA"
    pods = planned_gpu(spec_of(ON_GPU), plan)
    assert (pods.count, pods.product, pods.resource_name) == (1, H100.product, "nvidia.com/gpu")
    assert building_gpu(spec_of(ON_GPU), plan).count == 0


def test_without_a_gpu_nothing_changes() -> None:
    """`gpu.count: 0` stays the processor: its plan counts host memory alone."""
    plan = found(tiny_facts(), {"runtime": {"gpu": {"count": 0}}}, gpu=None)
    assert isinstance(plan, EnginePlan)

    assert (plan.serving_plan.device, plan.memory.per_gpu) == ("CPU", [])


def test_the_engine_is_the_processors() -> None:
    """The device changes how an engine is served and no byte of it: models share the build."""
    on_cpu = found(tiny_facts(), {"runtime": {"gpu": {"count": 0}}}, gpu=None)
    assert isinstance(on_cpu, EnginePlan)

    assert planned(tiny_facts()).build_plan.fingerprint == on_cpu.build_plan.fingerprint


def test_no_pinned_pool() -> None:
    """With one, a full CUDA pool would give out features that were never copied."""
    assert planned(tiny_facts()).serving_plan.pools.pinned_bytes == 0


def test_weights_and_cache_of_seven_billion() -> None:
    """6,738,939,904 weights of 2 bytes, 524,288 bytes of cache a token."""
    (gpu,) = planned(
        llava_7b_facts(), merged(TORCH, {"engine": {"maxBatchSize": 16, "maxSeqLen": 1024}})
    ).memory.per_gpu

    assert gpu.kv_cache_bytes == 524_288 * 16 * 1024
    assert gpu.weights_bytes == 6_738_939_904 * 2


def test_the_pool_holds_the_features_of_every_request() -> None:
    """They are copied as they arrive, but a language model that is busy takes them late."""
    plan = planned(llava_7b_facts(), merged(TORCH, {"engine": {"maxBatchSize": 16}}))

    assert plan.pool.live_requests == plan.gateway_concurrency + 16
    assert plan.pool.bytes > 1.25 * plan.pool.live_requests * plan.pool.table_bytes_per_request


@cases(
    "vision encoder",
    {
        "a-share-under-mps": ({"engine": "Torch"}, 288 + 72),
        "another-share": ({"engine": "Torch", "threadPercentage": 40}, 768 + 72),
        "in-turns": ({"engine": "Torch", "sharing": "TimeSlicing"}, 768),
        "on-the-processor": ({"engine": "ONNXRuntime"}, 528),
    },
)
def test_every_process_has_a_context(vision: dict[str, Any], encoder: int) -> None:
    """Of the server, the language model and the encoder, which uploads features at the least."""
    (gpu,) = planned(tiny_facts(), {"vision": vision}).memory.per_gpu

    assert gpu.context_bytes == (528 + 768 + encoder) << 20


@cases(
    "vision expected",
    {
        "all": ({"engine": "Torch", "featureCacheBytes": "1Mi"}, 1),
        "those-used-last": ({"engine": "Torch", "featureCacheBytes": "512Mi"}, 64),
        "encoders-keep-them": (
            {"engine": "Torch", "featureCacheBytes": "512Mi", "placement": "Disaggregated"},
            0,
        ),
        "processor": ({"engine": "ONNXRuntime", "featureCacheBytes": "512Mi"}, 0),
    },
)
def test_features_that_are_kept_lie_on_the_gpu_too(vision: dict[str, Any], expected: int) -> None:
    """Where the encoder makes them there; in host memory all of them do, as without a GPU."""
    without = planned(tiny_facts(), {"vision": vision | {"featureCacheBytes": "0"}}).memory
    memory = planned(tiny_facts(), {"vision": vision}).memory
    kept = memory.per_gpu[0].other_bytes - without.per_gpu[0].other_bytes

    assert kept == expected << 20
    assert memory.host.feature_cache_bytes == (
        0 if "placement" in vision else bytes_of(vision["featureCacheBytes"])
    )


def test_an_encoder_on_the_processor_is_reported() -> None:
    """It works, and costs what the GPU would have saved."""
    (warning,) = planned(tiny_facts()).warnings

    assert (warning.code, planned(tiny_facts(), TORCH).warnings) == ("VisionOnCpu", ())


def test_encoders_in_pods_of_their_own() -> None:
    """They take a GPU when their engine computes on one."""
    apart = {"vision": {"placement": "Disaggregated"}}
    on_gpu, on_cpu = planned(tiny_facts(), merged(apart, TORCH)), planned(tiny_facts(), apart)

    assert encoder_gpu(spec_of(ON_GPU), on_gpu).count == 1
    assert encoder_gpu(spec_of(ON_GPU), on_cpu).count == 0


@cases(
    "vision expected",
    {
        "by-default": ({}, ("MPS", 25)),
        "share": ({"threadPercentage": 40}, ("MPS", 40)),
        "in-turns": ({"sharing": "TimeSlicing"}, ("TimeSlicing", 25)),
    },
)
def test_the_gpu_is_shared(vision: dict[str, Any], expected: tuple[str, int]) -> None:
    """As with TensorRT-LLM: MPS unless the spec says otherwise."""
    sharing = planned(tiny_facts(), {"vision": {"engine": "Torch", **vision}}).serving_plan.sharing

    assert sharing is not None
    assert (sharing.mode, sharing.thread_percentage) == expected


@cases(
    "changes field",
    {
        "two-gpus": ({"runtime": {"gpu": {"count": 2}}}, "runtime.gpu.count"),
        "pinned-pool": (
            {"runtime": {"memoryPools": {"pinned": "256Mi"}}},
            "runtime.memoryPools.pinned",
        ),
        "nothing-to-share": ({"vision": {"sharing": "MPS"}}, "vision.sharing"),
        "share-of-nothing": ({"vision": {"threadPercentage": 30}}, "vision.threadPercentage"),
    },
)
def test_what_would_have_no_effect_is_refused(changes: dict[str, Any], field: str) -> None:
    ((path, message),) = refused(changes)

    assert path == f"spec.{field}"
    assert "set" in message


def test_what_does_not_fit_is_refused_before_a_gpu_is_taken() -> None:
    """With the bytes that are missing, and the smallest change that would do."""
    small = gpu_of("l4-24gb")
    plan = found(llava_7b_facts(), {**TORCH, "engine": {"maxBatchSize": 64}}, gpu=small)
    assert isinstance(plan, EnginePlan)

    assert plan.fit.verdict == "DoesNotFit"
    assert f"{plan.fit.short_bytes:,} bytes are missing on GPU 0" in plan.fit.message
    assert "spec.engine.maxBatchSize" in {
        change.path for one in plan.fit.suggestions for change in one.changes
    }


def test_host_memory_that_weights_are_read_into() -> None:
    """The spec's limit must hold them for a moment."""
    limited = {"runtime": {"resources": {"limits": {"memory": "1Gi"}}}}

    plan = planned(llava_7b_facts(), limited)

    assert plan.fit.verdict == "DoesNotFit"
    assert "spec.runtime.resources.limits.memory: 1Gi is too little" in plan.fit.message
