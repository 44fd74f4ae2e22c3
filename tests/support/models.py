"""Snapshots of models and what surrounds them, for tests of the operator's pure half."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from mm_api.documents.model_facts import ModelFacts, TextFacts, VisionFacts
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.model import Observed, PlanSettings, Snapshot
from support.model_documents import document

EPOCH = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SETTINGS = PlanSettings(runtime_image="localhost/multimodal/runtime:1", builder_version="1")
DIGEST = "sha256:" + "0123456789abcdef" * 4


def tiny_facts(**changes: Any) -> ModelFacts:
    """Return facts of a tiny LLaVA: 56 pixels in patches of 14 make 16 features."""
    facts = ModelFacts(
        family="llava",
        architecture="LlavaForConditionalGeneration",
        dtype="float32",
        source_digest=DIGEST,
        weight_format="safetensors",
        weight_bytes=5_238_272,
        parameters=1_309_568,
        custom_code=False,
        image_token_id=4,
        text=TextFacts(
            hidden_size=128,
            intermediate_size=384,
            layers=4,
            attention_heads=4,
            key_value_heads=4,
            head_size=32,
            vocabulary_size=47,
            max_position_embeddings=128,
        ),
        vision=VisionFacts(
            hidden_size=128,
            layers=4,
            image_size=56,
            patch_size=14,
            features_per_image=16,
            feature_layer=-1,
            feature_select="default",
        ),
    )
    return facts.model_copy(update=changes)


def llava_7b_facts() -> ModelFacts:
    """Return facts of LLaVA 1.5 7B in float16: 336 pixels in patches of 14 make 576 features."""
    return tiny_facts(
        dtype="float16",
        weight_bytes=14_127_000_000,
        parameters=7_063_427_072,
        text=TextFacts(
            hidden_size=4096,
            intermediate_size=11_008,
            layers=32,
            attention_heads=32,
            key_value_heads=32,
            head_size=128,
            vocabulary_size=32_064,
            max_position_embeddings=4096,
        ),
        vision=VisionFacts(
            hidden_size=1024,
            layers=24,
            image_size=336,
            patch_size=14,
            features_per_image=576,
            feature_layer=-2,
            feature_select="default",
        ),
    )


def spec_of(changes: Mapping[str, Any] | None = None) -> MultimodalModelSpec:
    """Return the smallest spec with `changes` (camelCase) laid over it."""
    spec = document(changes)["spec"]
    try:
        return _spec_of(json.dumps(spec))
    except TypeError:  # a date, which YAML has and JSON has not
        return MultimodalModelSpec.model_validate(spec)


@cache
def _spec_of(text: str) -> MultimodalModelSpec:
    return MultimodalModelSpec.model_validate(json.loads(text))


def snapshot_of(
    changes: Mapping[str, Any] | None = None, *, name: str = "llava", **fields: Any
) -> Snapshot:
    """Return a model nothing exists of yet; `fields` replace fields of the snapshot."""
    base = Snapshot(
        name=name,
        namespace="demo",
        uid=f"uid-of-{name}",
        generation=1,
        created=EPOCH,
        spec=spec_of(changes),
        spec_error=None,
        status={},
        settings=SETTINGS,
        observed=Observed(),
        now=EPOCH + timedelta(seconds=1),
    )
    return replace(base, **fields)
