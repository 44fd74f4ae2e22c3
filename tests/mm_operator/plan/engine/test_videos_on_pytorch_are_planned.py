"""Videos on backend PyTorch: planned where trtllm-serve reads all of them, else refused by name."""

import json

import pytest

from mm_api.documents.model_plan import PlanError
from mm_api.families import FAMILIES
from mm_api.modalities import planned as held
from support.model_configs import ON_PYTORCH, planned_on_pytorch

SERVED = ("qwen2-vl", "qwen2-5-vl")


def refused(family: str, version: str) -> PlanError:
    (error,) = planned_on_pytorch(family, version, maxVideoFrames=16).errors
    assert (error.code, error.path) == ("VideoNotSupported", "spec.engine.maxVideoFrames")
    return error


@pytest.mark.parametrize("version", ["1.2.0", "1.2.1", "1.3.0rc20"])
@pytest.mark.parametrize("family", SERVED)
def test_frames_reach_gateway_and_server(family: str, version: str) -> None:
    """The gateway chooses so many frames, and the server's options leave out none."""
    plan = planned_on_pytorch(family, version, maxVideoFrames=16)
    assert plan.errors == []
    assert plan.serve is not None
    assert plan.serving_plan is not None
    assert plan.build_plan is not None
    kwargs = plan.serve.argv[plan.serve.argv.index("--media_io_kwargs") + 1]

    assert json.loads(kwargs) == {"video": {"num_frames": -1, "fps": -1}}
    assert plan.serving_plan.gateway.max_video_frames == 16
    assert held(plan.build_plan, plan.serving_plan.gateway) == ["text", "image", "video"]


@pytest.mark.parametrize("family", SERVED)
def test_without_the_field_nothing_changes(family: str) -> None:
    """Videos are opted into: with them images are sent in another way."""
    plan = planned_on_pytorch(family, "1.2.1")
    assert plan.serve is not None
    assert plan.serving_plan is not None

    assert "--media_io_kwargs" not in plan.serve.argv
    assert plan.serving_plan.gateway.max_video_frames == 0


def test_prompts_and_memory_have_room() -> None:
    """Two frames are the tokens of an image, a step holds them all, and the tower reads them."""
    few, many = (
        planned_on_pytorch("qwen2-5-vl", "1.2.1", maxVideoFrames=frames, maxBatchSize=1)
        for frames in (2, 32)
    )
    assert few.limits is not None
    assert many.limits is not None
    assert few.memory is not None
    assert many.memory is not None
    grown = many.limits.max_input_len - 32 // 2 * 1296

    assert grown >= FAMILIES["qwen2-5-vl"].template_tokens
    assert many.limits.max_num_tokens >= many.limits.max_input_len
    assert many.limits.max_multimodal_len == many.limits.max_batch_size * 16 * 1296
    first, later = few.memory.per_gpu[0], many.memory.per_gpu[0]
    assert later.vision_activation_bytes > first.vision_activation_bytes


@pytest.mark.parametrize("version", ["1.0.0", "1.1.0"])
@pytest.mark.parametrize("family", SERVED)
def test_older_versions_name_the_first(family: str, version: str) -> None:
    """They would fetch addresses, and sample ten or eight frames of what they find there."""
    message = refused(family, version).message

    assert f"since 1.2.0, and the image has {version}" in message
    assert "use an image of 26.03 or newer" in message


def test_other_families_say_why() -> None:
    """What a server would do with their videos is not what the gateway has chosen."""
    assert "takes no video" in refused("qwen3-vl", "1.2.1").message


def test_no_family_takes_the_field_for_nothing() -> None:
    """Each that is served has videos in its plan, or refuses them."""
    taken = {
        family
        for family in ON_PYTORCH
        if not planned_on_pytorch(family, "1.2.1", maxVideoFrames=2).errors
    }
    assert taken == set(SERVED)
