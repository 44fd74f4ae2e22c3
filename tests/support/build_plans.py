"""Plans as the operator would write them, for checkpoints of `random_llava`."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from mm_api.documents.build_plan import BuildPlan, EngineLimits, EngineSpec, VisionPlan
from mm_api.documents.lora_adapter import LoraAdapter
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.serving_plan import GatewayPlan, MemoryPools, ServingPlan


def build_plan(
    facts: ModelFacts,
    *,
    tolerance: float = 1e-3,
    allow_pickle: bool = False,
    adapters: Mapping[str, Path] = MappingProxyType({}),
) -> BuildPlan:
    """Return the plan of a Reference engine for eight requests with one image each."""
    vision = facts.vision
    batch, images = 8, 2 if vision else 0
    engine = EngineSpec(
        source_digest=facts.source_digest,
        family=facts.family,
        backend="Reference",
        dtype=facts.dtype,
        limits=EngineLimits(
            max_batch_size=batch,
            max_input_len=96,
            max_seq_len=128,
            max_num_tokens=1024,
            max_beam_width=1,
            max_images_per_request=images,
            max_multimodal_len=batch * images * vision.features_per_image if vision else 0,
        ),
        vision=VisionPlan(
            engine="ONNXRuntime",
            image_size=vision.image_size,
            features_per_image=vision.features_per_image,
            max_batch_size=batch,
            opset=18,
            tolerance=tolerance,
        )
        if vision
        else None,
        builder_version="1",
    )
    fingerprint = hashlib.sha256(engine.to_json().encode()).hexdigest()
    lora = [
        LoraAdapter(
            name=one.name, uid=uid, source=str(adapters[one.name]), source_digest=one.source_digest
        )
        for uid, one in enumerate(facts.lora.adapters if facts.lora else ())
    ]
    return BuildPlan(
        fingerprint=fingerprint,
        engine=engine,
        facts=facts,
        lora=lora or None,
        allow_pickle=allow_pickle,
    )


def serving_plan(fingerprint: str, **changes: object) -> ServingPlan:
    """Return a serving plan for an engine; `changes` replace fields."""
    plan = ServingPlan(
        model="tiny",
        fingerprint=fingerprint,
        backend="Reference",
        pools=MemoryPools(cuda_bytes=64 << 20, pinned_bytes=64 << 20, shm_bytes=64 << 20),
        max_queue_size=16,
        bls_instances=0,  # the tests that query it say so; each costs 0.3 s of a core at the start
        gateway=GatewayPlan(
            max_concurrency=8,
            max_queue_size=16,
            max_image_bytes=1 << 20,
            max_image_pixels=1 << 20,
            max_images_per_request=2,
            fetch_timeout_seconds=20,
            request_timeout_seconds=30,
        ),
    )
    return plan.model_copy(update=changes)


def change_serving(
    file: Path, *, gateway: Mapping[str, object] = MappingProxyType({}), **changes: object
) -> None:
    plan = ServingPlan.from_json(file.read_bytes())
    front = plan.gateway.model_copy(update=dict(gateway))
    file.write_text(plan.model_copy(update={"gateway": front, **changes}).to_json())
