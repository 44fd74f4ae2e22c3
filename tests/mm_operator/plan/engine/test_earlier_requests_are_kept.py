"""`engine.kvCache.reuse`: memory that the plan counts, engines that can, and servers that keep."""

from collections.abc import Mapping
from typing import Any

import pytest

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.trtllm_build import GpuModel
from mm_api.families import FAMILIES
from mm_operator.model import EnginePlan
from mm_operator.plan.engine.backends.reference import _check_reuse
from mm_operator.plan.engine.plan import Refusal, plan_engine
from mm_operator.plan.engine.request import Inputs, request_of
from mm_operator.plan.engine.tables import gpu_of
from support.cases import cases
from support.model_configs import facts_of, planned, planned_on_pytorch
from support.model_documents import merged
from support.models import spec_of, tiny_facts

REUSE = {"engine": {"kvCache": {"reuse": True}}}
ON_GPU = {"runtime": {"gpu": {"count": 1}}, "vision": {"engine": "Torch"}}
KEYS = {"gateway": {"authSecretRef": {"name": "keys"}}}


def found(
    changes: Mapping[str, Any], facts: ModelFacts | None = None, gpu: GpuModel | None = None
) -> EnginePlan | Refusal:
    inputs = Inputs(
        model="m", spec=spec_of(changes), facts=facts or tiny_facts(), builder_version="1", gpu=gpu
    )
    return plan_engine(inputs)


def kept(changes: Mapping[str, Any], gpu: GpuModel | None = None) -> tuple[int | None, int]:
    plan = found(changes, gpu=gpu)
    assert isinstance(plan, EnginePlan), plan
    memory = plan.memory
    if gpu is None:
        return plan.serving_plan.reuse_bytes, memory.host.kv_cache_bytes
    return plan.serving_plan.reuse_bytes, memory.per_gpu[0].kv_cache_bytes


@cases("base gpu", {"host": ({}, None), "gpu": (ON_GPU, gpu_of("h100-80gb"))})
def test_what_is_kept_is_memory_of_the_plan(base: dict[str, Any], gpu: GpuModel | None) -> None:
    """As much as slots have; nothing by default."""
    none, slots = kept(base, gpu)
    assert none is None
    as_much, both = kept(merged(base, REUSE), gpu)
    assert as_much is not None
    assert both == slots + as_much
    assert 0 < as_much <= slots
    assert kept(merged(base, {"engine": {"kvCache": {"reuse": False}}}), gpu) == (None, slots)


def test_the_reason_is_reported() -> None:
    plan = found(REUSE)
    assert isinstance(plan, EnginePlan)
    assert [one.reason for one in plan.reasons if one.field == "kvCache.reuse"] == [
        "as much as running requests have, in addition to it"
    ]


@pytest.mark.parametrize("family", ["t5", "mllama", "whisper"])
def test_what_cannot_be_kept_is_refused(family: str) -> None:
    """Of encoder-decoders, of decoders that cross to images, of recordings."""
    refusal = found(REUSE, facts_of(family))
    assert isinstance(refusal, Refusal)
    assert [(one.reason, one.path) for one in refusal.problems] == [
        ("NotSupported", "spec.engine.kvCache.reuse")
    ]


def test_classes_with_caches_of_their_own_are_refused() -> None:
    """A family that is served by its own class keeps nothing."""
    assert [
        one.message
        for one in _check_reuse(FAMILIES["generic"], request_of(spec_of(REUSE)))
        if "caches of their own class" in one.message
    ]


def test_engines_of_tensorrt_llm_read_what_is_kept() -> None:
    """The engine reads pages of the cache beside a prompt's rest; its server keeps them."""
    plan = planned("llava", **REUSE)
    assert plan.errors == []
    (llm,) = (one for one in plan.engines if one.name == "llm")
    at = llm.argv.index("--use_paged_context_fmha")
    assert llm.argv[at + 1] == "enable"
    assert plan.serving_plan.kv_cache.reuse

    plain = planned("llava")
    assert plain.serving_plan.kv_cache.reuse is None
    assert all("--use_paged_context_fmha" not in one.argv for one in plain.engines)


@pytest.mark.parametrize("reuse", [True, False])
def test_servers_of_text_keep_blocks(reuse: bool) -> None:  # noqa: FBT001
    """trtllm-serve's own default is yes, so that its file says it either way."""
    plan = planned_on_pytorch("qwen2-vl", "1.1.0", maxImagesPerRequest=0, kvCache={"reuse": reuse})
    assert plan.errors == []
    cache = plan.serve.options["kv_cache_config"]
    assert isinstance(cache, dict)
    assert cache["enable_block_reuse"] == reuse


@cases("version codes", {"1.0": ("1.0.0", ["ReuseSharedByKeys"]), "1.1": ("1.1.0", [])})
def test_servers_keep_clients_apart(version: str, codes: list[str]) -> None:
    """With keys nothing is kept by a version that does not know `cache_salt`."""
    engine = {"backend": "PyTorch", "maxImagesPerRequest": 0, "kvCache": {"reuse": True}}
    plan = planned("qwen2-vl", engine=engine, version=version, **KEYS)
    assert [one.code for one in plan.errors] == codes
