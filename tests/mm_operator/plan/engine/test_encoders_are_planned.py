"""What servers and encoders are informed of each other, and the memory of both pods."""

import pytest

from mm_api.v1alpha1.quantity import bytes_of
from mm_operator.plan.engine.memory import PROCESS_BYTES
from mm_operator.plan.engine.pools import CUDA_MINIMUM_BYTES
from support.model_configs import planned, reference_plan
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
