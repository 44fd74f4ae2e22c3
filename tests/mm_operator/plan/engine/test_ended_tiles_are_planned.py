"""NVILA on PyTorch and Reference: limits, memory, command, and every refusal by its name."""

from dataclasses import replace
from typing import Any

import pytest

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import ModelPlan
from mm_api.families import FAMILIES
from mm_operator.plan.engine.encoder_memory import vision_engine_bytes
from mm_operator.plan.engine.model_plan import model_plan
from mm_operator.plan.engine.tables import gpu_of
from support.model_configs import (
    facts_of,
    inputs_of,
    planned,
    planned_on_pytorch,
    reference_inputs,
    reference_plan,
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
    """They do not reach trtllm-serve."""
    (refused,) = planned_on_pytorch(FAMILY, maxVideoFrames=8).errors

    assert refused.code == "VideoNotSupported"


def test_an_image_without_the_class_is_refused() -> None:
    """The first image that has it is named."""
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


@pytest.mark.parametrize("images", [1, 16])
def test_tiles_of_one_scale_fit_the_reference_engine(images: int) -> None:
    """Two newlines a tile; each of several images is one tile, in any pass."""
    plan = reference_plan(lite(), {"engine": {"maxImagesPerRequest": images}})
    assert plan.errors == []
    assert plan.limits is not None

    rows = max(13 * 121, images * 121)
    assert plan.limits.features_per_image == 13 * 121
    assert plan.limits.max_multimodal_len == plan.limits.max_batch_size * rows
    assert rows + 2 * 13 * images + 48 < plan.limits.max_input_len
    assert plan.limits.vision_max_batch_size == 32


def test_the_batch_of_the_encoder_is_the_specs() -> None:
    """The Reference engine encodes tiles of a request in as many passes as it takes."""
    plan = reference_plan(lite(), {"vision": {"maxBatchSize": 2}})

    assert plan.errors == []
    assert plan.limits is not None
    assert plan.limits.vision_max_batch_size == 2


@pytest.mark.parametrize(("images", "rows"), [(1, 3072), (4, 3072), (20, 20 * 256)])
def test_scales_fit_the_reference_engine(images: int, rows: int) -> None:
    """NVILA-8B: 12 tiles that are joined again and one newline, or a tile of each image."""
    plan = reference_plan(facts_of(FAMILY), {"engine": {"maxImagesPerRequest": images}})
    assert plan.errors == []
    assert plan.limits is not None
    batch = plan.limits.max_batch_size

    assert plan.limits.features_per_image == 3072
    assert plan.limits.max_multimodal_len == batch * rows
    assert rows + images + 48 < plan.limits.max_input_len


def test_several_images_are_planned_as_a_tile_each() -> None:
    """Shared memory holds the pixels of 17 tiles, however many images come together."""
    one, four, many = (
        reference_plan(facts_of(FAMILY), {"engine": {"maxImagesPerRequest": images}}).memory
        for images in (1, 4, 40)
    )
    assert one is not None
    assert four is not None
    assert many is not None

    assert one.shm_bytes == four.shm_bytes < many.shm_bytes


def test_what_is_joined_is_planned() -> None:
    """States of 17 tiles, two copies of the grid at three scales, and the projector's own."""
    images, (states, numbers) = 1, (1 + 4 + 12, 12 * 3)
    scaled = reference_plan(facts_of(FAMILY), {"engine": {"maxImagesPerRequest": images}}).memory
    vision = facts_of(FAMILY).vision
    assert scaled is not None
    assert scaled.host is not None
    assert vision is not None
    tile = 1024 * 1152 * 4
    scores = 3 * 16 * 1024**2 * 4
    together = max(1, (256 << 20) // (16 * 1024**2 * 4))
    tower = 12 * 1152**2 * 27 * 4 + together * (8 * tile + scores)
    projector = 475_752_176 - 27 * (4 * 1152**2 + 2 * 1152 * vision.intermediate_size)

    found = scaled.host.vision_bytes - tower
    assert found == (states + 2 * numbers) * tile + 4 * 3 * 3 * tile + 4 * projector


def test_on_a_gpu_scales_are_joined_on_the_host() -> None:
    """The projector's weights are float32 there, beside a tower of 16 bits."""
    spec = {"runtime": {"gpu": {"count": 1}}, "vision": {"engine": "Torch"}}
    inputs = reference_inputs(facts_of(FAMILY), spec)
    plan = model_plan(replace(inputs, gpu=gpu_of("h100-80gb")))
    assert plan.errors == []
    assert plan.memory is not None
    gpu = plan.memory.per_gpu[0]
    projector = 475_752_176 - 27 * (4 * 1152**2 + 2 * 1152 * 4304)

    assert gpu.vision_engine_bytes == 2 * 475_752_176 + 2 * projector
    assert plan.memory.host.vision_bytes == (4 * 475_752_176 + (17 + 2 * 36) * 1024 * 1152 * 4)


def test_other_backends_name_the_way_out() -> None:
    """No vision builder has any of it."""
    tensorrt = planned(FAMILY, {"backend": "TensorRT"}, version="0.20.0").errors[0]

    assert tensorrt.code == "BackendFamily"
    assert tensorrt.message.endswith("no engines of nvila: use backend PyTorch or Reference")
