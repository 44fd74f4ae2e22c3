"""LoRA adapters on backend PyTorch: the server's options, their bytes, and who is refused.

TensorRT-LLM drops what it does not apply without an error, so there are more refusals than for
engines.
"""

from itertools import permutations
from typing import Any

import pytest

from mm_api.documents.model_facts import (
    AdapterFacts,
    LoraFacts,
    ModelFacts,
    StoredQuantization,
    TextFacts,
)
from mm_api.documents.model_plan import GpuMemory, ModelPlan
from mm_api.families import FAMILIES
from mm_operator.plan.engine.serve_adapters import AdapterBytes, adapter_bytes, adapter_pages
from support.cases import cases
from support.model_configs import ON_PYTORCH, facts_of, planned
from support.moe_models import facts_of_experts

SOURCE = {"persistentVolumeClaim": {"claimName": "adapters", "path": "french"}}
LORA = [{"name": "french", "source": SOURCE}, {"name": "legal", "source": SOURCE}]
APPLIED = "gemma3"
RANK = 16
QKV = ("attn_k", "attn_q", "attn_v")
DROPPED = sorted(
    name for name in ON_PYTORCH if (one := FAMILIES[name].pytorch) and one.adapters_since is None
)


def lora(*modules: str, digests: str = "ab") -> LoraFacts:
    """Return what an inspection finds of two adapters."""
    found = [
        AdapterFacts(name=one["name"], source_digest=f"sha256:{digit * 64}")
        for one, digit in zip(LORA, digests, strict=True)
    ]
    return LoraFacts(adapters=found, modules={"llm": sorted(modules)}, rank=RANK)


def facts_with(family: str, found: LoraFacts | None, **changes: Any) -> ModelFacts:
    return facts_of(family).model_copy(update={"lora": found, **changes})


def served(
    facts: ModelFacts | None = None,
    family: str = APPLIED,
    version: str = "1.1.0",
    gpu: str = "h100-80gb",
    **engine: Any,
) -> ModelPlan:
    """Return the plan of a family's model with two adapters, unless `engine` has others."""
    fields = {"backend": "PyTorch", "lora": LORA, **ON_PYTORCH[family], **engine}
    found = facts or facts_with(family, lora(*QKV))
    return planned(family, fields, version=version, gpu=gpu, facts=found, model={})


def gpus(plan: ModelPlan) -> list[GpuMemory]:
    assert plan.errors == []
    assert plan.memory
    return plan.memory.per_gpu


def test_the_server_is_given_room_for_every_adapter() -> None:
    """Modules and the highest rank of all; room for as many; no recorded passes."""
    plan = served()
    assert plan.errors == []
    assert plan.serve
    assert plan.serve.options["lora_config"] == {
        "lora_target_modules": ["attn_k", "attn_q", "attn_v"],
        "max_lora_rank": RANK,
        "max_loras": 2,
        "max_cpu_loras": 2,
    }
    assert plan.serve.options["cuda_graph_config"] is None
    assert "LoraWithoutGraphs" in [one.code for one in plan.warnings]
    assert plan.serve.applies_adapters


def test_settings_of_graphs_contradict_adapters() -> None:
    """The server makes none: settings of them are refused; others are merged beside them."""
    (refused,) = served(extraLlmApiOptions={"cuda_graph_config": {"enable_padding": True}}).errors
    assert refused.code == "OptionsExclude"
    assert refused.path == "spec.engine.extraLlmApiOptions.cuda_graph_config.enable_padding"
    assert "engine.lora" in refused.message

    plan = served(extraLlmApiOptions={"stream_interval": 2})
    assert plan.serve
    assert plan.serve.options["cuda_graph_config"] is None
    assert plan.serve.options["stream_interval"] == 2


def test_without_adapters_the_options_are_as_before() -> None:
    plan = served(facts_of(APPLIED), lora=[])
    assert plan.serve
    assert not {"lora_config", "cuda_graph_config"} & set(plan.serve.options)
    assert not plan.serve.applies_adapters
    assert "LoraWithoutGraphs" not in [one.code for one in plan.warnings]
    assert not [one for one in plan.reasons if one.field == "loraCache"]


def test_adapters_are_part_of_the_staged_engine() -> None:
    """By place and digest; other files are another engine, another place in the store is not."""
    plan, other = served(), served(facts_with(APPLIED, lora(*QKV, digests="ac")))
    assert plan.build_plan
    assert [(one.name, one.uid) for one in plan.build_plan.adapters] == [
        ("french", 0),
        ("legal", 1),
    ]
    elsewhere = [{**one, "source": {"s3": {"bucket": "adapters", "prefix": "p"}}} for one in LORA]
    assert served(lora=elsewhere).fingerprint == plan.fingerprint
    assert len({plan.fingerprint, other.fingerprint, served(lora=[]).fingerprint}) == 3


@pytest.mark.parametrize("family", DROPPED)
def test_classes_that_drop_adapters_are_refused(family: str) -> None:
    """Upstream would answer as the checkpoint alone, without an error; what to do is said."""
    newest = "1.3.0rc20"
    (refused,) = served(facts_with(family, lora(*QKV)), family, newest).errors
    assert (refused.code, refused.path) == ("LoraNotApplied", "spec.engine.lora")
    assert "would be answered by the checkpoint alone, without an error" in refused.message
    assert f"it applies those of {APPLIED}" in refused.message
    for backend in ("TensorRT", "Reference"):
        can = FAMILIES[family].is_served(backend)
        assert (f"backend {backend}" in refused.message) == can


@pytest.mark.parametrize("name", ["scout", "qwen3"])
def test_mixtures_of_experts_are_refused(name: str) -> None:
    """Classes that the engine serves without knowing their family are not taken for Gemma's."""
    facts = facts_of_experts(name).model_copy(update={"lora": lora("attn_q")})
    fields = {"backend": "PyTorch", "lora": LORA}
    plan = planned("generic", fields, version="1.3.0rc20", facts=facts, model={})
    assert "LoraNotApplied" in [one.code for one in plan.errors]


def test_some_families_are_refused() -> None:
    assert {"qwen2-vl", "mistral3", "mllama", "nvila"} <= {*DROPPED}


@cases(
    "version codes",
    {
        "before": ("1.0.0", ["LoraTooOld"]),
        "a-fix-of-before": ("1.0.3.2510", ["LoraTooOld"]),
        "first": ("1.1.0", []),
        "after": ("1.2.1", []),
    },
)
def test_a_version_before_is_refused(version: str, codes: list[str]) -> None:
    assert [one.code for one in served(version=version).errors] == codes


NVFP4 = StoredQuantization(weights="NVFP4", quantized_parameters=1)


@cases(
    "facts engine path code",
    {
        "not-inspected": (facts_of(APPLIED), {}, "spec.engine.lora", "LoraNotInspected"),
        "output-of-attention": (
            facts_with(APPLIED, lora(*QKV, "attn_dense")),
            {},
            "spec.engine.lora",
            "LoraModules",
        ),
        "nvfp4": (
            facts_with(APPLIED, lora(*QKV), quantization=NVFP4),
            {},
            "spec.engine.lora",
            "LoraQuantized",
        ),
        "more-ranks-than-key-value-heads": (
            facts_with(APPLIED, lora(*QKV)),
            {"parallelism": {"tensor": 8}},
            "spec.engine.parallelism.tensor",
            "LoraKeyValueHeads",
        ),
        "stages": (
            facts_with(APPLIED, lora(*QKV)),
            {"parallelism": {"pipeline": 2}},
            "spec.engine.parallelism.pipeline",
            "LoraPipelineParallel",
        ),
    },
)
def test_what_upstream_does_not_apply_is_refused(
    facts: ModelFacts, engine: dict[str, Any], path: str, code: str
) -> None:
    """By the field, before a GPU is taken."""
    found = served(facts, gpu="b200-180gb", **engine).errors
    assert [(one.path, one.code) for one in found] == [(path, code)]


def test_an_output_as_wide_as_the_hidden_state_may_be_changed() -> None:
    text = facts_of(APPLIED).text
    wide = text.model_copy(update={"attention_heads": text.hidden_size // text.head_size})
    assert served(facts_with(APPLIED, lora("attn_dense"), text=wide)).errors == []


TEXT = TextFacts(
    hidden_size=100,
    intermediate_size=400,
    layers=3,
    attention_heads=4,
    key_value_heads=2,
    head_size=20,
    vocabulary_size=10,
    max_position_embeddings=10,
)


@cases(
    "modules ranks expected",
    {
        # Slots of 140 numbers. A page: 8 x (1 + 2 + 1) x 3 layers = 96, of which q, k and v of rank
        # 16 fill at least 96 - 21 + 1 = 76; 53 x 3 layers are 3 pages, 6 for both adapters.
        "q": (["attn_q"], 1, AdapterBytes(6 * 96 * 140 * 2, 2 * 16 * 3 * 180 * 2)),
        "qkv": (
            ["attn_k", "attn_q", "attn_v"],
            1,
            AdapterBytes(6 * 96 * 140 * 2, 2 * 16 * 3 * (140 + 180 + 140) * 2),
        ),
        # On each of two GPUs 100 + 200 numbers of 100 + 400; the copy is not split. A page of 24
        # slots has one module of 16: 3 pages for each adapter.
        "two-ranks": (["mlp_h_to_4h"], 2, AdapterBytes(6 * 24 * 300 * 2, 2 * 16 * 3 * 500 * 2)),
    },
)
def test_bytes_are_those_of_upstreams_pages(
    modules: list[str], ranks: int, expected: AdapterBytes
) -> None:
    """Every adapter has pages of its own; all of q, k and v have slots."""
    assert adapter_bytes(lora(*modules), TEXT, ranks=ranks, dtype="bfloat16") == expected


@cases(
    "adapters rank module loras pages",
    {
        # 9 slots a layer, two layers in a page of 24: 27 slots are 2 pages.
        "as-many": (1, 9, "mlp_gate", 1, 2),
        # 16 a layer, one layer in a page: 3 pages, and 48 slots are 2.
        "one-more": (1, 16, "mlp_gate", 2, 4),
        "of-two": (2, 16, "mlp_gate", 3, 6),
        "full-pages": (2, 8, "mlp_gate", 2, 2),
    },
)
def test_pages_that_stay_part_empty_are_made_up_for(
    adapters: int, rank: int, module: str, loras: int, pages: int
) -> None:
    """Upstream's `max_loras` is a number of slots: of so many an adapter would not fit."""
    found = lora(module)
    some = found.model_copy(update={"rank": rank, "adapters": found.adapters[:adapters]})
    cut = adapter_pages(some, TEXT, ranks=1)
    assert (cut.loras, cut.count) == (loras, pages)


@pytest.mark.parametrize("adapters", [1, 2])
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("modules", [QKV, ("attn_q",), ("mlp_gate", "mlp_4h_to_h", *QKV)])
def test_every_adapter_has_its_pages(modules: tuple[str, ...], ranks: int, adapters: int) -> None:
    """Whatever the order of its modules, placed one after the other as upstream does."""
    found = lora(*modules)
    for rank in (1, 3, 8, 16, 24):
        some = found.model_copy(update={"rank": rank, "adapters": found.adapters[:adapters]})
        cut = adapter_pages(some, TEXT, ranks=ranks)
        wide = [100 + 80 // ranks, *[100 + 40 // ranks] * 2]
        wide += [100 + 400 // ranks] * 2 if len(modules) > len(QKV) else []
        rows = [-(-rank * numbers // cut.width) for numbers in wide]
        if max(rows) > cut.slots:
            continue  # refused
        for order in permutations(rows):
            pages, begun = 1, 0
            for row in order * TEXT.layers:
                if begun + row > cut.slots:
                    pages, begun = pages + 1, 0
                begun += row
            assert pages * adapters <= cut.count


def test_a_module_that_no_page_has_room_for_is_refused() -> None:
    """A page is made for rank 64 at the most, or for all layers at rank 8."""
    high = facts_with(APPLIED, lora(*QKV).model_copy(update={"rank": 4096}))
    (refused,) = served(high).errors
    assert (refused.code, refused.path) == ("LoraRank", "spec.engine.lora")
    assert "use adapters of a lower rank, or backend Reference" in refused.message


def test_adapters_are_planned_on_the_gpu() -> None:
    """Among the buffers, with a reason; the KV cache leaves room for what is made after it."""
    plan, without = served(), served(facts_of(APPLIED), lora=[])
    text = facts_of(APPLIED).text
    needed = adapter_bytes(lora(*QKV), text, ranks=1, dtype="bfloat16").total

    assert gpus(plan)[0].other_bytes - gpus(without)[0].other_bytes == needed
    (reason,) = [one for one in plan.reasons if one.field == "loraCache"]
    assert reason.value == str(needed)

    names = [f"adapter-{place}" for place in range(16)]
    read = [AdapterFacts(name=name, source_digest=f"sha256:{'a' * 64}") for name in names]
    many = facts_with(APPLIED, lora(*QKV).model_copy(update={"rank": 256, "adapters": read}))
    assert plan.memory
    assert (large := served(many, lora=[{**LORA[0], "name": name} for name in names]).memory)
    assert large.kv_cache_free_gpu_memory_fraction < plan.memory.kv_cache_free_gpu_memory_fraction


def test_every_rank_has_them() -> None:
    """Each GPU keeps a cache of its share and a copy."""
    plan = served(parallelism={"tensor": 2})
    without = served(facts_of(APPLIED), lora=[], parallelism={"tensor": 2})
    needed = adapter_bytes(lora(*QKV), facts_of(APPLIED).text, ranks=2, dtype="bfloat16").total
    more = [a.other_bytes - b.other_bytes for a, b in zip(gpus(plan), gpus(without), strict=True)]
    assert more == [needed, needed]
