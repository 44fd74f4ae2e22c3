"""Every family of pictures and texts gets a Reference engine; one that hears is refused."""

from typing import Any

import pytest

from mm_api.families import FAMILIES, SERVED
from mm_operator.errors import SpecError
from mm_operator.plan.draft import Draft, draft
from support.model_configs import facts_of
from support.models import spec_of


def _drafted(family: str, engine: dict[str, Any] | None = None) -> Draft:
    spec = spec_of({"engine": engine or {}})
    return draft(model="m", spec=spec, facts=facts_of(family), builder_version="1")


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - SERVED))
def test_others_are_planned_only(family: str) -> None:
    """The message says what the checkpoint is, what plans it, and what is served."""
    with pytest.raises(SpecError) as refused:
        _drafted(family)

    assert refused.value.reason == "NotSupported"
    assert f"family {family}" in refused.value.message
    assert "mmctl plan" in refused.value.message


@pytest.mark.parametrize(
    ("family", "engine", "expected"),
    [
        ("llava-onevision", {}, {"max_input_len": 9053, "max_multimodal_len": 8 * 8765}),
        # One picture alone is the worst case, until many views are more.
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
    limits = _drafted(family, engine).build_plan.engine.limits.model_dump()
    assert expected == {name: limits[name] for name in expected}


@pytest.mark.parametrize(
    ("family", "engine", "words"),
    [
        ("llava", {"maxEncoderInputLen": 9}, "llava has no encoder of text"),
        ("bart", {"maxEncoderInputLen": 1025}, "1025 is above what the encoder has positions for"),
        ("bart", {"maxInputLen": 2}, "2 is no prompt of an encoder-decoder"),
        ("mbart", {"maxSeqLen": 1025}, "1025 is above the decoder's 1024 positions"),
    ],
)
def test_limits_that_cannot_be(family: str, engine: dict[str, Any], words: str) -> None:
    """What the family cannot do is refused with the field and a way out."""
    with pytest.raises(SpecError, match=words) as refused:
        _drafted(family, engine)
    assert refused.value.reason == "InvalidSpec"
    assert refused.value.path == f"spec.engine.{next(iter(engine))}"


def test_the_encoders_share_of_the_cache_is_counted() -> None:
    """Every layer of a decoder keeps keys and values of what the encoder read."""
    short, long = (
        draft(
            model="m",
            spec=spec_of({"engine": {"maxEncoderInputLen": length}}),
            facts=facts_of("bart"),
            builder_version="1",
        ).footprint.kv_cache_bytes
        for length in (100, 200)
    )
    assert long - short == 2 * 12 * 1024 * 4 * 8 * 100


@pytest.mark.parametrize(
    ("family", "engine", "frames"),
    [
        # 44 frames of 196 rows fit where one picture has room for 8765; no more than 32 are kept.
        pytest.param("llava-onevision", {}, 32, id="onevision-planned"),
        pytest.param("llava-onevision", {"maxVideoFrames": 64}, 64, id="onevision-asked"),
        pytest.param("qwen2-vl", {"maxImagesPerRequest": 2}, 4, id="two-frames-for-each-picture"),
        pytest.param("llava-onevision", {"maxImagesPerRequest": 0}, 0, id="text-only"),
        pytest.param("mllama", {}, 0, id="pictures-only"),
        pytest.param("t5", {}, 0, id="no-tower"),
    ],
)
def test_frames_of_a_video(family: str, engine: dict[str, Any], frames: int) -> None:
    """As many as asked, else what the memory of a request's pictures leaves room for."""
    made = _drafted(family, engine)
    assert frames == made.serving_plan.gateway.max_video_frames
    if frames == 64:
        assert made.build_plan.engine.limits.max_multimodal_len == 8 * (64 * 196 + 1)
