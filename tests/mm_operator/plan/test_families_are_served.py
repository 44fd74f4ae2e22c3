"""Every family of images and texts gets a Reference engine; one that receives is refused."""

from typing import Any

import pytest
import yaml

from mm_api.families import FAMILIES, SERVED
from mm_api.v1alpha1.validation import validate
from mm_operator.model import EnginePlan
from support.cases import cases
from support.model_configs import (
    facts_of,
    planned,
    planned_engine,
    reference_inputs,
    reference_plan,
)
from support.model_documents import merged
from support.scripts import ROOT


def _planned(family: str, engine: dict[str, Any] | None = None) -> EnginePlan:
    return planned_engine(reference_inputs(facts_of(family), {"engine": engine or {}}))


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - SERVED))
def test_others_are_refused_by_name(family: str) -> None:
    refused, others = reference_plan(facts_of(family)).errors[0], FAMILIES[family].backends

    assert family in refused.message
    assert (refused.code, refused.path) == ("BackendFamily", "spec.engine.backend")
    assert refused.message.endswith(f"set it to {' or '.join(reversed(others))}")


ON_VLLM = sorted(name for name in set(FAMILIES) - SERVED if "VLLM" in FAMILIES[name].backends)


@pytest.mark.parametrize("family", ON_VLLM)
def test_the_documented_manifest_serves_them(family: str) -> None:
    page = (ROOT / "docs" / "reference" / "families.md").read_text(encoding="utf-8")
    manifest = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])
    manifest["spec"]["model"]["family"] = family

    assert validate(manifest) == []
    engine, runtime = manifest["spec"]["engine"], manifest["spec"]["runtime"]
    assert planned(family, engine, gpu="h200-141gb", model={}, runtime=runtime).errors == []
    on_reference = merged(manifest, {"spec": {"engine": {"backend": "Reference"}}})
    del on_reference["spec"]["runtime"]
    (refused,) = validate(on_reference)
    assert "set engine.backend to VLLM" in refused.message


GUIDE = {"maxMultimodalLen": 7300, "maxInputLen": 7500, "maxSeqLen": 7600, "maxBatchSize": 1}
LIMITS = ("max_multimodal_len", "max_input_len", "max_seq_len", "max_batch_size")


@pytest.mark.parametrize(
    ("family", "engine", "expected"),
    [
        ("llava-onevision", {}, {"max_input_len": 9053, "max_multimodal_len": 8 * 8765}),
        # One image alone is the worst case, until many views are more.
        ("llava-onevision", {"maxImagesPerRequest": 4}, {"max_multimodal_len": 8 * 8765}),
        ("llava-onevision", {"maxImagesPerRequest": 20}, {"max_multimodal_len": 8 * 20 * 730}),
        # The guide's command, for videos of 37 frames and images of up to 7,300 rows.
        ("llava-onevision", GUIDE, dict(zip(LIMITS, GUIDE.values(), strict=True))),
        ("qwen2-vl", {"maxImagesPerRequest": 3}, {"max_multimodal_len": 8 * 3 * 1296}),
        ("mllama", {}, {"max_multimodal_len": 0, "max_encoder_input_len": 6404}),
        ("blip2-opt", {}, {"max_multimodal_len": 8 * 32, "max_seq_len": 1024}),
        ("vila", {}, {"max_multimodal_len": 8 * 196}),
        ("t5", {}, {"max_encoder_input_len": 1024, "max_input_len": 1, "max_seq_len": 201}),
        ("t5", {"maxInputLen": 4}, {"max_input_len": 4, "max_seq_len": 204}),
        ("flan-t5", {"maxEncoderInputLen": 300}, {"max_encoder_input_len": 300}),
        ("byt5", {}, {"max_encoder_input_len": 2048}),
        ("mt5", {"maxSeqLen": 64}, {"max_seq_len": 64}),
        ("bart", {}, {"max_encoder_input_len": 1024, "max_images_per_request": 0}),
        ("mbart", {}, {"max_encoder_input_len": 1024}),
        ("nmt", {}, {"max_encoder_input_len": 1024}),
    ],
)
def test_limits(family: str, engine: dict[str, Any], expected: dict[str, int]) -> None:
    limits = _planned(family, engine).build_plan.engine.limits.model_dump()
    assert expected == {name: limits[name] for name in expected}


@pytest.mark.parametrize(
    ("family", "engine", "code"),
    [
        ("llava", {"maxEncoderInputLen": 9}, "NoEncoder"),
        ("bart", {"maxEncoderInputLen": 1025}, "EncoderInputLenAbovePositions"),
        ("bart", {"maxInputLen": 1024}, "DecoderInputLen"),
        ("bart", {"maxInputLen": 1}, "DecoderInputLen"),
        ("mbart", {"maxSeqLen": 1025}, "SeqLenAbovePositions"),
        ("llava-onevision", {"maxMultimodalLen": 8 * 1485 - 1}, "MultimodalLen"),
        ("llava-onevision", {"maxMultimodalLen": 8 * 8765 + 1}, "MultimodalLen"),
        ("llava-onevision", {"maxMultimodalLen": 11880, "maxVideoFrames": 8}, "MultimodalLen"),
        ("blip2-opt", {"maxMultimodalLen": 256}, "MultimodalLenNotSupported"),
        ("bart", {"maxMultimodalLen": 256}, "MultimodalLenNotSupported"),
    ],
)
def test_limits_that_cannot_be(family: str, engine: dict[str, Any], code: str) -> None:
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
