"""LoRA adapters in a plan: flags for each engine that they change, uids, digests, refusals."""

from typing import Any

import pytest

from mm_api.documents.model_facts import AdapterFacts, LoraFacts, ModelFacts
from mm_operator.plan.engine.tables import flags_of, version_of
from support.cases import cases
from support.model_configs import VERSIONS, facts_of, planned

SOURCE = {"persistentVolumeClaim": {"claimName": "adapters", "path": "french"}}
LORA = [{"name": "french", "source": SOURCE}, {"name": "legal", "source": SOURCE}]
DIGESTS = ("sha256:" + "a" * 64, "sha256:" + "b" * 64)


def with_adapters(family: str, modules: dict[str, list[str]]) -> ModelFacts:
    found = [
        AdapterFacts(name=one["name"], source_digest=digest)
        for one, digest in zip(LORA, DIGESTS, strict=True)
    ]
    lora = LoraFacts(adapters=found, modules=modules, rank=16)
    return facts_of(family).model_copy(update={"lora": lora})


def option(argv: list[str], name: str) -> list[str]:
    rest = argv[argv.index(name) + 1 :]
    end = next((number for number, word in enumerate(rest) if word.startswith("--")), len(rest))
    return rest[:end]


def test_a_language_model_is_built_for_its_adapters() -> None:
    """Plug-in, folders in the order of the spec, modules and the highest rank; not for vision."""
    facts = with_adapters("llava", {"llm": ["attn_q", "attn_v"]})
    plan = planned("llava", {"lora": LORA}, facts=facts)
    llm, vision = (engine.argv for engine in plan.engines)

    assert plan.errors == []
    assert option(llm, "--lora_plugin") == ["float16"]
    assert option(llm, "--lora_dir") == ["adapters/french", "adapters/legal"]
    assert option(llm, "--lora_target_modules") == ["attn_q", "attn_v"]
    assert option(llm, "--max_lora_rank") == ["16"]
    assert not any("lora" in word for word in vision)


def test_each_engine_is_built_for_what_changes_it() -> None:
    """BART: the decoder has cross attention; its engine keeps padding, as in the guide."""
    modules = {"decoder": ["attn_q", "cross_attn_q"]}
    plan = planned("bart", {"lora": LORA}, facts=with_adapters("bart", modules))
    argv = {engine.name: engine.argv for engine in plan.engines}

    assert plan.errors == []
    assert "LoraPadding" in {warning.code for warning in plan.warnings}
    assert option(argv["decoder"], "--lora_target_modules") == modules["decoder"]
    assert "--lora_target_modules" not in argv["encoder"]
    assert option(argv["decoder"], "--remove_input_padding") == ["disable"]


def test_adapters_have_uids_and_digests() -> None:
    """A request names an adapter by its place in the spec; the build compares its digest."""
    facts = with_adapters("llava", {"llm": ["attn_q"]})
    plan = planned("llava", {"lora": LORA}, facts=facts)
    lora = plan.build_plan.trtllm.lora

    assert [(one.name, one.uid, one.source_digest) for one in lora] == [
        ("french", 0, DIGESTS[0]),
        ("legal", 1, DIGESTS[1]),
    ]
    assert {one.source for one in lora} == {"/mnt/adapters/adapters/french"}
    assert plan.fingerprint != planned("llava").fingerprint


@cases(
    "family facts code",
    {
        "not-inspected": ("llava", facts_of("llava"), "LoraNotInspected"),
        "t5": ("t5", with_adapters("t5", {"decoder": ["attn_q"]}), "LoraFamily"),
        "encoder": (
            "bart",
            with_adapters("bart", {"encoder": ["attn_q"], "decoder": ["attn_q"]}),
            "LoraEncoder",
        ),
    },
)
def test_adapters_that_cannot_be_served_are_refused(
    family: str, facts: ModelFacts, code: str
) -> None:
    plan = planned(family, {"lora": LORA}, facts=facts)
    assert [(error.path, error.code) for error in plan.errors] == [("spec.engine.lora", code)]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_has_the_flags(version: str) -> None:
    passed: set[Any] = {"lora_plugin", "lora_dir", "lora_target_modules", "max_lora_rank"}
    assert passed <= flags_of("trtllm-build", version_of(version))
