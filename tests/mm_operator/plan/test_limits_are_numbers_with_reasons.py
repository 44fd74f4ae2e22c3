"""Every limit that the spec leaves open becomes a number, and wrong ones are refused."""

from collections.abc import Mapping
from typing import Any

import pytest

from mm_api.documents.model_facts import AdapterFacts, LoraFacts, ModelFacts
from mm_api.documents.model_plan import HostMemory
from mm_operator.model import EnginePlan
from support.cases import cases
from support.golden import Golden
from support.model_configs import planned_engine, reference_inputs, reference_plan
from support.models import llava_7b_facts, tiny_facts


def planned(facts: ModelFacts, changes: Mapping[str, Any] | None = None) -> EnginePlan:
    return planned_engine(reference_inputs(facts, changes))


def host_of(facts: ModelFacts, changes: Mapping[str, Any] | None = None) -> HostMemory:
    return planned(facts, changes).memory.host


def limits_of(facts: ModelFacts, changes: Mapping[str, Any] | None = None) -> dict[str, int]:
    return planned(facts, changes).build_plan.engine.limits.model_dump()


CHOSEN: dict[str, tuple[ModelFacts, dict[str, Any]]] = {
    "llava-1.5-7b-as-documented-upstream": (llava_7b_facts(), {}),
    "few-positions": (tiny_facts(), {}),
    "images-need-a-longer-prompt": (llava_7b_facts(), {"engine": {"maxImagesPerRequest": 4}}),
    "prompt-is-given": (llava_7b_facts(), {"engine": {"maxInputLen": 1000}}),
    "sequence-is-given": (llava_7b_facts(), {"engine": {"maxSeqLen": 1000}}),
    "step-is-given": (llava_7b_facts(), {"engine": {"maxNumTokens": 3000}}),
    "one-request-at-a-time": (llava_7b_facts(), {"engine": {"maxBatchSize": 1}}),
    "no-vision-tower": (tiny_facts(vision=None), {}),
}


def test_limits(golden: Golden) -> None:
    found = {name: limits_of(facts, changes) for name, (facts, changes) in CHOSEN.items()}
    golden.check_yaml("chosen-limits.yaml", found)


REFUSED: dict[str, tuple[ModelFacts, dict[str, Any]]] = {
    "more-than-positions": (tiny_facts(), {"engine": {"maxSeqLen": 129}}),
    "no-room-for-an-answer": (tiny_facts(), {"engine": {"maxInputLen": 128}}),
    "no-room-for-a-question": (tiny_facts(), {"engine": {"maxInputLen": 32}}),
    "images-do-not-fit": (tiny_facts(), {"engine": {"maxImagesPerRequest": 8}}),
    "dtype-without-arithmetic": (tiny_facts(dtype="float8_e4m3fn"), {}),
    "pool-too-small": (llava_7b_facts(), {"runtime": {"memoryPools": {"cuda": "64Mi"}}}),
    "features-contradict-the-family": (
        tiny_facts(vision=tiny_facts().vision.model_copy(update={"features_per_image": 15})),
        {},
    ),
}


def test_refusals(golden: Golden) -> None:
    found = {
        name: str(reference_plan(facts, changes).errors[0])
        for name, (facts, changes) in REFUSED.items()
    }
    golden.check_yaml("refused-limits.yaml", found)


def test_a_memory_limit_of_0_is_none() -> None:
    plan = planned(llava_7b_facts(), {"runtime": {"resources": {"limits": {"memory": 0}}}})

    assert (plan.fit.verdict, host_of(llava_7b_facts()).limit_bytes) == ("Fits", None)


def test_every_choice_has_a_reason() -> None:
    reasons = planned(tiny_facts()).reasons
    assert [one.field for one in reasons if one.reason] == [
        "dtype",
        "maxSeqLen",
        "maxInputLen",
        "maxNumTokens",
        "maxMultimodalLen",
        "maxConcurrency",
        "memoryPools.cuda",
        "memoryPools.pinned",
        "shm",
    ]


@pytest.mark.parametrize("name", ["cuda", "pinned"])
def test_a_pool_that_the_spec_names_has_that_reason(name: str) -> None:
    """A number of the user's is never explained by a default, nor the other way round."""
    written = planned(tiny_facts(), {"runtime": {"memoryPools": {name: "1Gi"}}}).reasons
    chosen = planned(tiny_facts()).reasons
    field, why = f"memoryPools.{name}", f"as written in spec.runtime.memoryPools.{name}"

    assert [one.reason for one in written if one.field == field] == [why]
    assert why not in [one.reason for one in chosen]


def test_what_the_spec_names_is_taken() -> None:
    changes = {
        "engine": {"dtype": "float16"},
        "vision": {"maxBatchSize": 3},
        "runtime": {"maxConcurrency": 5, "memoryPools": {"cuda": "1Gi", "pinned": "1Mi"}},
        "gateway": {"allowedHosts": ["example.org"], "maxImageBytes": "1Ki"},
    }
    made = planned(tiny_facts(), changes)
    engine, serving = made.build_plan.engine, made.serving_plan
    assert (
        engine.dtype,
        engine.vision.max_batch_size,
        serving.gateway.max_concurrency,
        serving.pools.cuda_bytes,
        serving.pools.pinned_bytes,
        serving.gateway.allowed_hosts,
        serving.gateway.max_image_bytes,
    ) == ("float16", 3, 5, 1 << 30, 1 << 20, ["example.org"], 1024)


def test_class_token_is_a_feature_when_it_is_kept() -> None:
    vision = tiny_facts().vision
    full = vision.model_copy(update={"feature_select": "full", "features_per_image": 17})
    assert limits_of(tiny_facts(vision=full))["max_multimodal_len"] == 8 * 17


def test_memory_terms_of_a_known_model() -> None:
    """Weights, table and cache of LLaVA 1.5 7B in float16 are the well-known numbers."""
    memory = host_of(llava_7b_facts())
    assert (memory.weights_bytes, memory.prompt_table_bytes, memory.kv_cache_bytes) == (
        14_126_854_144,
        8 * 576 * 4096 * 2,
        2 * 32 * 32 * 128 * 2 * 2560 * 8,
    )


@cases(
    "changes widest",
    {
        "hidden": ({"hidden_size": 16_384}, 16_384),
        "heads": ({"head_size": 1024}, 32 * 1024),
        "inner": ({}, 11_008),
    },
)
def test_adapters_are_bounded_by_the_widest_matrix(changes: dict[str, int], widest: int) -> None:
    """Two of rank 8 count as weights; queries may be wider than what they are made of."""
    adapters = [AdapterFacts(name=name, source_digest=f"sha256:{name * 64}") for name in "ab"]
    plain = llava_7b_facts()
    facts = plain.model_copy(update={"text": plain.text.model_copy(update=changes)})
    lora = LoraFacts(adapters=adapters, modules={"llm": ["attn_q", "attn_v"]}, rank=8)
    source = {"persistentVolumeClaim": {"claimName": "c", "path": "a"}}
    requested = {"engine": {"lora": [{"name": name, "source": source} for name in "ab"]}}
    with_adapters = host_of(facts.model_copy(update={"lora": lora}), requested).weights_bytes
    assert with_adapters - host_of(facts).weights_bytes == 2 * 32 * 2 * 2 * widest * 8 * 2


def test_text_only_model_has_no_vision_plan() -> None:
    made = planned(tiny_facts(vision=None))
    assert (made.build_plan.engine.vision, host_of(tiny_facts(vision=None)).vision_bytes) == (
        None,
        0,
    )
