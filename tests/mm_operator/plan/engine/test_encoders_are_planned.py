"""What servers and encoders are informed of each other, and the memory of both pods."""

from dataclasses import replace
from typing import Any

import pytest

from mm_api.v1alpha1.quantity import bytes_of
from mm_api.v1alpha1.vision import EncoderGpu
from mm_operator.children.hardware import building_gpu, encoder_gpu
from mm_operator.plan.engine.bottleneck import measured
from mm_operator.plan.engine.encoders import check_encoder
from mm_operator.plan.engine.memory import PROCESS_BYTES
from mm_operator.plan.engine.pools import CUDA_MINIMUM_BYTES
from support.cases import cases
from support.model_configs import inputs_of, planned, planned_engine, reference_plan
from support.models import tiny_facts

CACHE = "64Mi"
TOGETHER = {"featureCacheBytes": CACHE}
DISAGGREGATED = {"placement": "Disaggregated", **TOGETHER}


def _reference(**vision: object) -> object:
    return reference_plan(tiny_facts(), {"vision": vision})


def test_the_cache_moves_with_the_images() -> None:
    """The server's memory is that of one pod less the cache, which the encoder's pod holds."""
    one, disaggregated = _reference(**TOGETHER), _reference(**DISAGGREGATED)
    assert one.memory.encoder is None
    host, encoder = disaggregated.memory.host, disaggregated.memory.encoder
    assert one.memory.host.total_bytes - host.total_bytes == bytes_of(CACHE)
    assert encoder.total_bytes == host.vision_bytes + bytes_of(CACHE)
    assert (encoder.cuda_pool_bytes, encoder.context_bytes) == (0, None)


def test_an_engine_stays_the_same() -> None:
    one, disaggregated = _reference(), _reference(placement="Disaggregated")
    assert one.fingerprint == disaggregated.fingerprint
    assert (one.serving_plan.encoders, disaggregated.serving_plan.encoders.addresses) == (
        None,
        ["m-encoders:8001"],
    )


def test_encoders_on_gpus_have_one_process() -> None:
    """On a GPU: the vision engine, one context and the smallest pool; the server keeps its own."""
    one = planned("llava", {})
    disaggregated = planned("llava", {}, vision={"placement": "Disaggregated"})
    assert one.memory.per_gpu == disaggregated.memory.per_gpu
    gpu, encoder = disaggregated.memory.per_gpu[0], disaggregated.memory.encoder
    vision = gpu.vision_engine_bytes + gpu.vision_activation_bytes
    assert encoder.vision_bytes == vision
    assert encoder.total_bytes == vision + PROCESS_BYTES + CUDA_MINIMUM_BYTES


def test_a_limit_that_is_too_small_is_reported() -> None:
    """The Reference engine's encoder must fit into the memory that its pod may have."""
    plan = _reference(**DISAGGREGATED, resources={"limits": {"memory": "32Mi"}})
    assert [error.path for error in plan.errors] == ["spec.vision.resources.limits.memory"]
    assert "lower spec.vision.featureCacheBytes" in plan.errors[0].message


@pytest.mark.parametrize("backend", ["Reference", "TensorRT"])
def test_only_what_sees_has_encoders(backend: str) -> None:
    if backend == "Reference":
        facts = tiny_facts(vision=None, family="t5")
        plan = reference_plan(facts, {"vision": {"placement": "Disaggregated"}})
    else:
        plan = planned("t5", {}, vision={"placement": "Disaggregated"})
    assert [error.path for error in plan.errors] == ["spec.vision.placement"]


@cases(
    "vision mode percent reasons",
    {
        "absent": ({}, "MPS", 25, ["the smallest that was measured"]),
        "written": ({"threadPercentage": 60}, "MPS", 60, ["as written"]),
        "time-slices": ({"sharing": "TimeSlicing"}, "TimeSlicing", 25, []),
    },
)
def test_a_written_share_is_kept(
    vision: dict[str, Any], mode: str, percent: int, reasons: list[str]
) -> None:
    plan = planned("llava", {}, vision=vision)
    sharing = plan.serving_plan.sharing
    said = [one.reason for one in plan.reasons if one.field == "vision.threadPercentage"]

    assert (sharing.mode, sharing.thread_percentage, said) == (mode, percent, reasons)


SPEC = {"runtime": {"gpu": {"count": 1}}, "vision": {"engine": "TensorRT"}}


def test_the_plan_names_the_gpu_and_the_build_has_it() -> None:
    """Another GPU is another engine; half of the weights' bytes are planned in half precision."""
    inputs = inputs_of("qwen2-vl", {"backend": "Reference"}, **SPEC)
    planned = planned_engine(inputs)
    vision = planned.build_plan.engine.vision
    assert (vision.tensorrt.dtype, vision.tensorrt.compute_capability) == ("float16", "9.0")
    assert building_gpu(inputs.spec, planned).count == 1
    other = planned_engine(inputs_of("qwen2-vl", {"backend": "Reference"}, gpu="l40s-48gb", **SPEC))
    assert planned.build_plan.fingerprint != other.build_plan.fingerprint
    torch = inputs.spec.model_copy(
        update={"vision": inputs.spec.vision.model_copy(update={"engine": "Torch"})}
    )
    beside = planned_engine(replace(inputs, spec=torch)).memory.per_gpu[0]
    assert 2 * planned.memory.per_gpu[0].vision_engine_bytes == beside.vision_engine_bytes


ON_GPU = {"runtime": {"gpu": {"count": 1}}}
APART = {"placement": "Disaggregated", "engine": "Torch"}


@cases(
    "gpu device product context",
    {
        "like-the-language-model": (None, "CUDA", "NVIDIA-H100-80GB-HBM3", True),
        "another-product": ({"product": "NVIDIA-L4"}, "CUDA", "NVIDIA-L4", True),
        "the-processor": ({"count": 0}, "CPU", None, False),
    },
)
def test_encoders_have_hardware_of_their_own(
    gpu: dict[str, Any] | None,
    device: str,
    product: str | None,
    context: bool,  # noqa: FBT001 (a column of the table)
) -> None:
    inputs = inputs_of("llava", {"backend": "VLLM"}, model={}, vision={**APART, "gpu": gpu})
    plan = planned_engine(inputs)
    assert (device, context) == (
        plan.serving_plan.device,
        plan.memory.encoder.context_bytes is not None,
    )
    assert encoder_gpu(inputs.spec, plan).product == product
    (larger,) = check_encoder(
        plan.memory.encoder.model_copy(update={"total_bytes": 1 << 40, "limit_bytes": 1 << 30}),
        inputs.spec.vision.model_copy(update={"gpu": EncoderGpu(product=product or "NVIDIA-L4")}),
    )
    assert larger.path == f"spec.vision.{'gpu.product' if context else 'resources.limits.memory'}"


@cases(
    "vision advice",
    {
        "a-gpu-for-onnx": ({"engine": "ONNXRuntime", "gpu": {"product": "NVIDIA-L4"}}, "Torch"),
        "none-for-torch": ({"engine": "Torch", "gpu": {"count": 0}}, "ONNXRuntime"),
    },
)
def test_reference_encodes_alike_in_both_pods(vision: dict[str, Any], advice: str) -> None:
    own = {"placement": "Disaggregated", **vision}
    (error,) = planned("llava", {"backend": "Reference"}, **ON_GPU, vision=own).errors
    assert error.path == "spec.vision.gpu.count"
    assert f"set it to {advice}" in error.message


def test_the_plan_estimates_the_bottleneck() -> None:
    """The tower of LLaVA-1.5 7B has a twentieth of the weights that its 576 rows pass later."""
    text = planned("llava", {}, vision={"placement": "Disaggregated"}).bottleneck
    assert "bottleneck: language model, one encoder replica feeds" in text
    assert "on equal hardware (estimated from their weights" in text
    assert planned("llava", {}).bottleneck is None


ENCODING = {"encoders": {"scaling": {"work": {"imageTokenSeconds": 0.0001}}}}
ANSWERING = {
    "inputs": {"meanOutputTokens": 10.0},
    "work": {"requestSeconds": 0.001, "imageTokenSeconds": 1e-5, "outputTokenSeconds": 0.001},
}


@cases(
    "tokens rate verdict",
    {
        "encoders": (10, "59.7", "encoder, 4 encoder replicas feed one"),
        "language-model": (100, "9.37", "language model, one encoder replica feeds 1"),
    },
)
def test_the_bottleneck_is_measured(tokens: int, rate: str, verdict: str) -> None:
    scaling = {**ANSWERING, "inputs": {"meanOutputTokens": tokens}}
    status = {**ENCODING, "plan": {"featuresPerImage": 576}, "scaling": scaling}
    assert measured(status) == (
        f"encoder: 17.4 images/s per replica; language model: {rate} images/s per replica, each "
        f"with an answer of {tokens} tokens; bottleneck: {verdict} (measured)"
    )
    assert measured({**status, "scaling": {}}).endswith("nothing is measured yet")
    assert not measured({"plan": status["plan"], "scaling": scaling})
