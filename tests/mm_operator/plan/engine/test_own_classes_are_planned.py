"""Checkpoints that their own class serves: estimates are named, what has no meaning is refused."""

from typing import Any

from mm_operator.plan.engine.model_plan import model_plan
from mm_operator.plan.engine.request import Inputs
from mm_operator.plan.engine.tables import gpu_of
from support.cases import cases
from support.model_configs import facts_of, reference_plan
from support.models import spec_of


def test_nothing_encodes_beside_the_class() -> None:
    """There is no vision engine to build, and images are allowed all the same."""
    plan = reference_plan(facts_of("generic"))

    assert plan.errors == []
    assert plan.build_plan.engine.vision is None
    assert plan.build_plan.engine.limits.max_images_per_request == 1


def test_estimates_are_a_warning() -> None:
    """It names the class and the number that an image is counted with."""
    found = {one.code: one.message for one in reference_plan(facts_of("generic")).warnings}

    assert "PaliGemmaForConditionalGeneration" in found["Estimates"]
    assert "an image becomes 256 tokens" in found["Estimates"]


@cases(
    "changes path",
    {
        "engine": ({"vision": {"engine": "Torch"}}, "spec.vision.engine"),
        "batch": ({"vision": {"maxBatchSize": 4}}, "spec.vision.maxBatchSize"),
        "cache": ({"vision": {"featureCacheBytes": "1Gi"}}, "spec.vision.featureCacheBytes"),
        "placement": ({"vision": {"placement": "Disaggregated"}}, "spec.vision.placement"),
        "video": ({"engine": {"maxVideoFrames": 4}}, "spec.engine.maxVideoFrames"),
    },
)
def test_fields_that_would_change_nothing(changes: dict[str, Any], path: str) -> None:
    errors = reference_plan(facts_of("generic"), changes).errors

    assert [one.path for one in errors] == [path]
    assert "generic" in errors[0].message


def test_a_gpu_is_refused() -> None:
    inputs = Inputs(
        model="m",
        spec=spec_of(),
        facts=facts_of("generic"),
        builder_version="1",
        gpu=gpu_of("h100-80gb"),
    )

    assert [one.path for one in model_plan(inputs).errors] == ["spec.runtime.gpu.count"]
