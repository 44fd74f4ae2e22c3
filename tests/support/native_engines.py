"""Manifests and serving plans of TensorRT-LLM engines that were planned and never built."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from support.model_configs import planned


def native_engine(
    family: str,
    engine: Mapping[str, Any] | None = None,
    *,
    version: str = "0.20.0",
    gpu: str = "h100-80gb",
    **spec: Any,
) -> tuple[EngineManifest, ServingPlan]:
    """Return what a pod of one family is started with; `engine`, `spec`: the resource's fields."""
    complete = planned(family, engine, version=version, gpu=gpu, **spec)
    assert not complete.errors, complete.errors
    assert complete.build_plan
    assert complete.serving_plan
    manifest = EngineManifest(
        fingerprint=complete.build_plan.fingerprint,
        created=datetime(2026, 1, 1, tzinfo=UTC),
        plan=complete.build_plan,
        files=[],
        steps=[],
        versions={},
    )
    return manifest, complete.serving_plan
