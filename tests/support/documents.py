"""Manifests of engines that were never built: for the pure half, which only reads them."""

from datetime import UTC, datetime

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.model_facts import ModelFacts, TextFacts, VisionFacts
from support.build_plans import build_plan

FACTS = ModelFacts(
    family="llava",
    architecture="LlavaForConditionalGeneration",
    dtype="float16",
    source_digest="sha256:" + "0" * 64,
    weight_format="safetensors",
    weight_bytes=208,
    parameters=96,
    custom_code=False,
    image_token_id=4,
    text=TextFacts(
        hidden_size=32,
        intermediate_size=64,
        layers=2,
        attention_heads=4,
        key_value_heads=2,
        head_size=8,
        vocabulary_size=16,
        max_position_embeddings=128,
    ),
    vision=VisionFacts(
        hidden_size=16,
        layers=3,
        image_size=28,
        patch_size=14,
        features_per_image=4,
        feature_layer=-2,
        feature_select="default",
    ),
)


def manifest(*, dtype: str = "float16") -> EngineManifest:
    plan = build_plan(FACTS.model_copy(update={"dtype": dtype}))
    return EngineManifest(
        fingerprint=plan.fingerprint,
        created=datetime(2026, 1, 1, tzinfo=UTC),
        plan=plan,
        files=[],
        steps=[],
        versions={},
    )
