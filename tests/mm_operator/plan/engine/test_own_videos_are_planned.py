"""Videos that the checkpoint's own processor reads: frames, tokens and memory are planned."""

import pytest

from mm_api.documents.model_plan import HostMemory, ModelPlan
from mm_api.families.qwen2_5_omni import FRAME_PIXELS, rows_of_video, video_features
from support.model_configs import facts_of, planned

FAMILY = "qwen2-5-omni"


def host(plan: ModelPlan) -> HostMemory:
    assert not plan.errors, plan.errors
    assert plan.memory
    return plan.memory.host


def frames(plan: ModelPlan) -> int:
    assert plan.serving_plan
    return plan.serving_plan.gateway.max_video_frames


def test_frames_have_room_by_default() -> None:
    """As many as other families take: 16 x 768 tokens are fewer than an image may have."""
    assert frames(planned(FAMILY)) == 32


@pytest.mark.parametrize(("count", "rows"), [(48, 24 * 768), (60, 30 * 768)])
def test_more_frames_are_longer_prompts(count: int, rows: int) -> None:
    """Their tokens are those of a prompt, and of keys and values."""
    plain, more = planned(FAMILY), planned(FAMILY, {"maxVideoFrames": count})
    assert frames(more) == count
    assert more.limits
    assert more.limits.max_input_len > rows
    assert host(more).kv_cache_bytes > host(plain).kv_cache_bytes


def test_a_video_passes_the_tower_together() -> None:
    """Up to 42 frames are fewer patches than the largest image, and more are the next one's."""
    lengths = {"maxBatchSize": 1, "maxInputLen": 30_000, "maxSeqLen": 32_000}
    least, most, above = (
        host(planned(FAMILY, {**lengths, "maxVideoFrames": count})).vision_bytes
        for count in (2, 42, 44)
    )
    assert least == most < above


def test_more_than_the_positions_is_refused() -> None:
    """64 frames are 24,576 tokens, a recording 7,500, and the checkpoint has 32,768 positions."""
    (error,) = planned(FAMILY, {"maxVideoFrames": 64}).errors
    assert error.code == "InputLenTooShort"
    assert "64 frames and the template take 32140" in error.message
    assert error.message.endswith("or spec.engine.maxVideoFrames")


def test_other_own_classes_refuse_the_field() -> None:
    """Of a class without a record nothing is known of videos."""
    errors = planned("generic", {"maxVideoFrames": 8}).errors
    assert "VideoNotSupported" in {one.code for one in errors}


@pytest.mark.parametrize("size", [(56, 84), (700, 1000), (2000, 3000), (30, 900)], ids=str)
def test_a_video_has_no_more_tokens_than_planned(size: tuple[int, int]) -> None:
    """Whatever the shape of its frames, and never fewer than the least of a frame."""
    vision = facts_of(FAMILY).vision
    assert vision
    least, _ = FRAME_PIXELS
    for count in (1, 2, 7):
        rows = rows_of_video(vision, count, *size)
        assert -(-count // 2) * (least // 28**2) <= rows <= video_features(vision, count)
