"""Models with experts on backend PyTorch: spread over ranks, by versions that have the class."""

import re
from typing import Any

import pytest

from mm_api.documents.model_plan import ModelPlan
from mm_api.families.upstream_classes import CLASSES, UNREAD
from mm_operator.plan.engine.tables import flags_of, version_of
from mm_operator.plan.engine.weights import Split, weights_bytes
from support.cases import cases
from support.model_configs import facts_of, planned
from support.moe_models import GENERIC, facts_of_experts


def on_pytorch(
    name: str, version: str = "1.2.1", *, tensor: int = 1, expert: int = 1, **engine: Any
) -> ModelPlan:
    fields = {"backend": "PyTorch", "parallelism": {"tensor": tensor, "expert": expert}, **engine}
    return planned("generic", fields, version=version, facts=facts_of_experts(name), model={})


@pytest.mark.parametrize("name", ["scout", "qwen3"])
@pytest.mark.parametrize("expert", [1, 2, 4])
def test_ranks_share_the_experts(name: str, expert: int) -> None:
    facts = facts_of_experts(name)
    total = weights_bytes(facts, GENERIC, Split(), dtype="bfloat16", quantization=None)
    split = Split(ranks=4, expert_ranks=expert)
    rank = weights_bytes(facts, GENERIC, split, dtype="bfloat16", quantization=None)
    text = facts.text
    repeated = text.vocabulary_size * text.hidden_size
    repeated += text.experts.layers * text.experts.count * text.hidden_size
    repeated += (2 * text.layers + 1) * text.hidden_size

    assert 4 * rank == total + 3 * 2 * repeated


def test_stages_of_experts() -> None:
    """A stage holds half of the layers, those with experts among them."""
    facts = facts_of_experts("maverick")
    total = weights_bytes(facts, GENERIC, Split(), dtype="bfloat16", quantization=None)
    halves = [
        weights_bytes(
            facts, GENERIC, Split(stages=2, stage=at), dtype="bfloat16", quantization=None
        )
        for at in (0, 1)
    ]
    text = facts.text
    twice = text.experts.layers * text.experts.count * text.hidden_size
    twice += (2 * text.layers + 1) * text.hidden_size

    assert sum(halves) == total + 2 * twice


@pytest.mark.parametrize(("tensor", "verdict"), [(1, "DoesNotFit"), (4, "Fits")])
def test_scout_needs_its_gpus(tensor: int, verdict: str) -> None:
    """218 GB of weights: four of 80 GB, and no fewer."""
    plan = on_pytorch("scout", tensor=tensor, maxSeqLen=8192)

    assert plan.errors == []
    assert plan.fit.verdict == verdict
    assert [one.weights_bytes * tensor > 200e9 for one in plan.memory.per_gpu] == [True] * tensor


@pytest.mark.parametrize("version", ["1.2.1", "1.3.0rc20"])
def test_the_command_says_how_experts_are_spread(version: str) -> None:
    plan = on_pytorch("qwen3", version, tensor=4, expert=2)

    assert plan.errors == []
    assert plan.serve.argv[plan.serve.argv.index("--ep_size") + 1] == "2"
    assert "ep_size" in flags_of("trtllm-serve", version_of(version))
    alone = on_pytorch("qwen3", version, tensor=4).serve
    assert "--ep_size" not in alone.argv


@cases(
    "name tensor expert code words",
    {
        "ranks": ("qwen3", 4, 3, "ExpertParallel", "use 1 or 2 or 4$"),
        "experts": ("mixed", 16, 16, "ExpertParallel", "use 1 or 2 or 4 or 8$"),
        "width": ("thin", 16, 1, "ExpertWidth", "width 1400 .* over 16 GPUs"),
    },
)
def test_experts_that_cannot_be_shared(
    name: str, tensor: int, expert: int, code: str, words: str
) -> None:
    errors = on_pytorch(name, tensor=tensor, expert=expert).errors

    assert [one.code for one in errors] == [code]
    assert re.search(words, errors[0].message)


def test_versions_without_the_class() -> None:
    (refused,) = on_pytorch("qwen3", "1.1.0").errors

    assert (refused.code, refused.path) == ("BackendTooOld", "spec.engine.backend")
    assert "serves Qwen3VLMoeForConditionalGeneration since 1.2.0" in refused.message
    assert "the image has 1.1.0" in refused.message
    assert "an image of 26.03 or newer" in refused.message


def test_classes_that_upstream_lacks() -> None:
    (refused,) = planned(
        "generic", {"backend": "PyTorch"}, version="1.2.1", facts=facts_of("generic"), model={}
    ).errors

    assert refused.code == "BackendFamily"
    assert "does not serve PaliGemmaForConditionalGeneration" in refused.message
    assert "Llama4ForConditionalGeneration" in refused.message


@pytest.mark.parametrize("kind", sorted(UNREAD))
def test_classes_that_only_newer_sources_have(kind: str) -> None:
    """It is not said that upstream lacks them: which release has them was not read."""
    facts = facts_of("generic").model_copy(update={"architecture": kind})
    (refused,) = planned(
        "generic", {"backend": "PyTorch"}, version="1.3.0rc20", facts=facts, model={}
    ).errors

    assert (refused.code, refused.path) == ("BackendFamily", "spec.engine.backend")
    assert f"newer than the releases planned for list {kind}" in refused.message
    assert refused.message.endswith("use Reference")
    assert kind not in CLASSES


def test_models_without_experts() -> None:
    (refused,) = planned(
        "qwen2-vl",
        {"backend": "PyTorch", "parallelism": {"tensor": 2, "expert": 2}},
        version="1.2.1",
        model={},
    ).errors

    assert (refused.code, refused.path) == ("NoExperts", "spec.engine.parallelism.expert")
