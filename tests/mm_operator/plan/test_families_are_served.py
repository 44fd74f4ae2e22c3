"""Every family of images and texts gets a Reference engine; one that receives is refused."""

from typing import Any

import pytest

from mm_api.families import FAMILIES, SERVED
from mm_operator.model import EnginePlan
from support.cases import cases
from support.model_configs import facts_of, planned_engine, reference_inputs, reference_plan


def _planned(family: str, engine: dict[str, Any] | None = None) -> EnginePlan:
    return planned_engine(reference_inputs(facts_of(family), {"engine": engine or {}}))


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - SERVED))
def test_others_are_planned_only(family: str) -> None:
    """The message says what the checkpoint is, and what plans it."""
    refused = reference_plan(facts_of(family)).errors[0]

    assert refused.code == "NotSupported"
    assert f"family {family}" in refused.message
    assert "mmctl plan" in refused.message


@pytest.mark.parametrize(
    ("family", "engine", "expected"),
    [
        ("llava-onevision", {}, {"max_input_len": 9053, "max_multimodal_len": 8 * 8765}),
        # One image alone is the worst case, until many views are more.
        ("llava-onevision", {"maxImagesPerRequest": 4}, {"max_multimodal_len": 8 * 8765}),
        ("llava-onevision", {"maxImagesPerRequest": 20}, {"max_multimodal_len": 8 * 20 * 730}),
        ("qwen2-vl", {"maxImagesPerRequest": 3}, {"max_multimodal_len": 8 * 3 * 1296}),
        ("mllama", {}, {"max_multimodal_len": 0, "max_encoder_input_len": 6404}),
        ("blip2-opt", {}, {"max_multimodal_len": 8 * 32, "max_seq_len": 1024}),
        ("vila", {}, {"max_multimodal_len": 8 * 196}),
        ("t5", {}, {"max_encoder_input_len": 1024, "max_input_len": 1, "max_seq_len": 201}),
        ("flan-t5", {"maxEncoderInputLen": 300}, {"max_encoder_input_len": 300}),
        ("byt5", {}, {"max_encoder_input_len": 2048}),
        ("mt5", {"maxSeqLen": 64}, {"max_seq_len": 64}),
        ("bart", {}, {"max_encoder_input_len": 1024, "max_images_per_request": 0}),
        ("mbart", {}, {"max_encoder_input_len": 1024}),
        ("nmt", {}, {"max_encoder_input_len": 1024}),
    ],
)
def test_limits(family: str, engine: dict[str, Any], expected: dict[str, int]) -> None:
    """Real models, with the numbers of their family."""
    limits = _planned(family, engine).build_plan.engine.limits.model_dump()
    assert expected == {name: limits[name] for name in expected}


@pytest.mark.parametrize(
    ("family", "engine", "code"),
    [
        ("llava", {"maxEncoderInputLen": 9}, "NoEncoder"),
        ("bart", {"maxEncoderInputLen": 1025}, "EncoderInputLenAbovePositions"),
        ("bart", {"maxInputLen": 3}, "DecoderInputLen"),
        ("bart", {"maxInputLen": 1}, "DecoderInputLen"),
        ("mbart", {"maxSeqLen": 1025}, "SeqLenAbovePositions"),
    ],
)
def test_limits_that_cannot_be(family: str, engine: dict[str, Any], code: str) -> None:
    """What the family cannot do is refused with the field."""
    (refused,) = reference_plan(facts_of(family), {"engine": engine}).errors

    assert (code, f"spec.engine.{next(iter(engine))}") == (refused.code, refused.path)


def test_the_encoders_share_of_the_cache_is_counted() -> None:
    """Every layer of a decoder keeps keys and values of what the encoder read."""
    short, long = (
        _planned("bart", {"maxEncoderInputLen": length}).memory.kv_pool_bytes
        for length in (100, 200)
    )
    assert long - short == 2 * 12 * 1024 * 4 * 8 * 100


@cases(
    "family engine frames",
    {
        # 44 frames of 196 rows fit where one image has room for 8765; no more than 32 are kept.
        "onevision-planned": ("llava-onevision", {}, 32),
        "onevision-requested": ("llava-onevision", {"maxVideoFrames": 64}, 64),
        "two-frames-for-each-image": ("qwen2-vl", {"maxImagesPerRequest": 2}, 4),
        "text-only": ("llava-onevision", {"maxImagesPerRequest": 0}, 0),
        "images-only": ("mllama", {}, 0),
        "no-tower": ("t5", {}, 0),
    },
)
def test_frames_of_a_video(family: str, engine: dict[str, Any], frames: int) -> None:
    """As many as requested, else what the memory of a request's images leaves room for."""
    made = _planned(family, engine)
    assert frames == made.serving_plan.gateway.max_video_frames
    if frames == 64:
        assert made.build_plan.engine.limits.max_multimodal_len == 8 * (64 * 196 + 1)
