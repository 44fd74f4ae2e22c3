"""NVILA on PyTorch: limits, memory, command, and every refusal by its name."""

from dataclasses import replace
from typing import Any

import pytest

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import ModelPlan
from mm_api.families import FAMILIES
from mm_operator.plan.engine.encoder_memory import vision_engine_bytes
from mm_operator.plan.engine.model_plan import model_plan
from support.model_configs import (
    facts_of,
    inputs_of,
    planned,
    planned_on_pytorch,
)

FAMILY = "nvila"
ONE_SCALE = {"scales": None, "min_tiles": 1, "max_tiles": 13, "merge_size": 3}


def lite() -> ModelFacts:
    """Return facts whose images are tiles of one scale, of 121 features each."""
    facts = facts_of(FAMILY)
    assert facts.vision is not None
    vision = facts.vision.model_copy(update={**ONE_SCALE, "features_per_image": 121})
    return facts.model_copy(update={"vision": vision})


def of_lite(**engine: Any) -> ModelPlan:
    return planned(FAMILY, {"backend": "PyTorch", **engine}, version="1.1.0", facts=lite())


@pytest.mark.parametrize("version", ["1.0.0", "1.2.1", "1.3.0rc20"])
def test_the_largest_image_has_room(version: str) -> None:
    """Its features, their newline and a question fit a prompt, and a prompt fits a step."""
    plan = planned_on_pytorch(FAMILY, version)
    assert plan.errors == []
    assert plan.limits is not None
    assert plan.serve is not None

    assert plan.limits.features_per_image == 3072
    assert 3072 + 1 < plan.limits.max_input_len <= plan.limits.max_num_tokens
    assert plan.serve.options["kv_cache_config"]["enable_block_reuse"] is False
    assert plan.serve.argv[:4] == ["trtllm-serve", "models/nvila", "--backend", "pytorch"]


def test_the_vision_half_is_in_the_process() -> None:
    """Its weights in float16, and one pass over every tile of a request."""
    plan = planned_on_pytorch(FAMILY, maxImagesPerRequest=4, maxInputLen=16384)
    assert plan.errors == []
    assert plan.limits is not None
    assert plan.memory is not None
    gpu = plan.memory.per_gpu[0]

    assert gpu.vision_engine_bytes == vision_engine_bytes(facts_of(FAMILY), FAMILIES[FAMILY])
    assert gpu.vision_engine_bytes == 2 * 475_752_176
    assert plan.limits.vision_max_batch_size == 4 * (1 + 4 + 12)


def test_several_images_need_scales() -> None:
    """Tiles of one scale are divided evenly among images upstream."""
    (refused,) = of_lite(maxImagesPerRequest=2).errors

    assert (refused.code, refused.path) == ("TooManyImages", "spec.engine.maxImagesPerRequest")
    assert "evenly among its images" in refused.message
    assert "use at most 1" in refused.message
    plan = of_lite()
    assert plan.errors == []
    assert plan.limits is not None
    assert plan.limits.features_per_image == 13 * 121


def test_videos_are_refused() -> None:
    (refused,) = planned_on_pytorch(FAMILY, maxVideoFrames=8).errors

    assert refused.code == "VideoNotSupported"


def test_an_image_without_the_class_is_refused() -> None:
    refused = planned_on_pytorch(FAMILY, "0.21.0").errors[0]

    assert refused.code == "BackendTooOld"
    assert "25.09 or newer" in refused.message


@pytest.mark.parametrize(
    ("name", "word"),
    [("nvila-vs-llama3", "llama3"), ("my-vila1.5-3b", "vila1.5-3b"), ("nvila-8b", "")],
)
def test_names_that_choose_a_conversation_are_refused(name: str, word: str) -> None:
    """Upstream looks for such words in the path of the checkpoint."""
    inputs = inputs_of(FAMILY, {"backend": "PyTorch"}, version="1.1.0")
    errors = model_plan(replace(inputs, model=name)).errors

    assert [one.code for one in errors] == ["NameChoosesConversation"] * bool(word)
    assert all(repr(word) in one.message for one in errors)


def test_other_backends_name_the_way_out() -> None:
    tensorrt = planned(FAMILY, {"backend": "TensorRT"}, version="0.20.0").errors[0]

    assert tensorrt.code == "BackendFamily"
    assert tensorrt.message.endswith("no engines of nvila: use backend PyTorch")
