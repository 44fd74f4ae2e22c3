"""Attention scores of large images on the processor: planned, above what processes took, avoidable.

Measured on 2 cores: towers of 3 layers, width 256, 16 heads, inner width 1,024
(Qwen2-VL), exported as a build does. One image was run, then twice the one counted: what the
process's peak (VmHWM) grew by, in MiB.
"""

import pytest

from mm_api.documents.model_facts import VisionFacts
from mm_api.families import FAMILIES
from mm_api.v1alpha1.vision import VisionEngine
from mm_api.vision_runs import SCORES_OF_A_RUN, entries_of_a_run, score_bytes
from mm_operator.plan.engine.host_memory import host_vision_bytes
from mm_operator.plan.engine.target import Target
from support.model_configs import facts_of, reference_plan
from support.models import spec_of

SIDES = (32, 48, 56, 64)
"""Patches along a side of the image."""

PEAKS = {
    ("qwen2-vl", "ONNXRuntime"): (171, 441, 770, 1236),
}
"""Of SIDES."""

WITHOUT_SCORES = {"qwen2-vl": (41, 104)}
"""The same with Torch, of the first and the last of SIDES."""


def _planned(family: str, engine: VisionEngine, side: int) -> int:
    """Return the planned MiB of one image, without weights."""
    patch = 14
    vision = VisionFacts(
        hidden_size=256,
        layers=3,
        image_size=side * patch,
        patch_size=patch,
        features_per_image=side**2,
        attention_heads=16,
    )
    record = FAMILIES["mistral3"]  # patches of a square: Qwen2-VL's are bounded by its notes
    facts = facts_of(family).model_copy(update={"vision": vision})
    target = Target("m", spec_of({"vision": {"engine": engine}}), facts, record)
    return (host_vision_bytes(target, 1) - 12 * 256**2 * 3 * 4) >> 20


@pytest.mark.parametrize("number", range(len(SIDES)), ids=[f"{side}-patches" for side in SIDES])
@pytest.mark.parametrize(("family", "engine"), PEAKS, ids=[name for name, _ in PEAKS])
def test_scores_of_onnx_runtime(family: str, engine: VisionEngine, number: int) -> None:
    """What is planned for an image is never below what it took."""
    assert PEAKS[family, engine][number] <= _planned(family, engine, SIDES[number])


@pytest.mark.parametrize("family", WITHOUT_SCORES)
def test_one_operation_stores_none(family: str) -> None:
    """With Torch the largest image grew the process by less than one copy of its scores."""
    small, large = WITHOUT_SCORES[family]
    vision = facts_of(family).vision
    assert vision is not None

    assert score_bytes(FAMILIES[family], vision, "Torch") == 0
    assert (small, large) < (16 * 32**4 * 4 >> 20, 16 * 64**4 * 4 >> 20)


def test_images_of_many_scores_run_one_by_one() -> None:
    """32 of the largest images of Mistral Small 3.1 would take 1.2 TB."""
    vision, family = facts_of("mistral3").vision, FAMILIES["mistral3"]
    assert vision is not None

    assert score_bytes(family, vision, "ONNXRuntime") == 16 * (110 * 110) ** 2 * 4
    assert entries_of_a_run(family, vision, "ONNXRuntime", 32) == 1
    assert entries_of_a_run(family, vision, "Torch", 32) == 32


def test_images_of_few_scores_share_a_run() -> None:
    """As many as fit: LLaVA's have 577 positions."""
    vision, family = facts_of("llava").vision, FAMILIES["llava"]
    assert vision is not None
    one = 16 * 577**2 * 4

    assert entries_of_a_run(family, vision, "ONNXRuntime", 32) == SCORES_OF_A_RUN // one == 12
    assert entries_of_a_run(family, vision, "ONNXRuntime", 4) == 4


def test_a_limit_that_scores_exceed_names_the_field() -> None:
    """The bytes, the field, and the engine that stores none of them; which then fits."""
    limits = {"runtime": {"resources": {"limits": {"memory": "20Gi"}}}}
    engine = {"engine": {"maxBatchSize": 1}}
    refused = reference_plan(facts_of("qwen2-vl"), limits | engine)
    served = reference_plan(facts_of("qwen2-vl"), limits | engine | {"vision": {"engine": "Torch"}})

    assert refused.fit is not None
    assert refused.fit.verdict == "DoesNotFit"
    assert "5,159,780,352 bytes are attention scores of one image" in refused.fit.message
    assert "spec.vision.engine: Torch does not store" in refused.fit.message
    assert served.fit is not None
    assert served.fit.verdict == "Fits"


def test_many_scores_are_a_warning() -> None:
    """Without a limit, too: the pod requests what they take."""
    found = reference_plan(facts_of("qwen2-vl"))

    assert [one.code for one in found.warnings] == ["VisionScores"]
    assert reference_plan(facts_of("qwen2-vl"), {"vision": {"engine": "Torch"}}).warnings == []
