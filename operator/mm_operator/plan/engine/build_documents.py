"""What Jobs and pods read of a plan for TensorRT-LLM: the `BuildPlan` and the `ServingPlan`."""

from mm_api.documents.build_plan import BuildPlan, EngineLimits, EngineSpec, VisionPlan
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.quantization import StagedQuantization
from mm_api.documents.serving_plan import GpuSharing, KvCachePlan, MemoryPools, ServingPlan
from mm_api.documents.trtllm_build import Command, EngineCommand, GpuModel, TrtllmBuild
from mm_api.documents.trtllm_serve import TrtllmServe
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_api.v1alpha1.engine import Backend
from mm_api.v1alpha1.quantity import bytes_of
from mm_api.v1alpha1.vision import VisionEngine
from mm_operator.plan.draft import gateway_plan
from mm_operator.plan.engine.adapters import planned_adapters
from mm_operator.plan.engine.encoders import encoder_plan
from mm_operator.plan.engine.fingerprint import engine_fingerprint
from mm_operator.plan.engine.pools import bls_instances
from mm_operator.plan.engine.sizes import EngineSizing
from mm_operator.plan.limits import ONNX_OPSET, VISION_TOLERANCE


def build_plan(
    spec: MultimodalModelSpec,
    facts: ModelFacts,
    sizing: EngineSizing,
    *,
    trtllm: TrtllmBuild | None,
    builder_version: str,
    quantization: StagedQuantization | None = None,
) -> BuildPlan:
    """Return what the build Job reads; `trtllm` None: the checkpoint itself is served."""
    engine = EngineSpec(
        source_digest=facts.source_digest,
        family=facts.family,
        backend=spec.engine.backend,
        dtype=sizing.dtype,
        limits=_limits(sizing),
        vision=_vision(spec, facts, sizing),
        builder_version=builder_version,
    )
    return BuildPlan(
        fingerprint=engine_fingerprint(engine, trtllm, quantization=quantization),
        engine=engine,
        facts=facts,
        trtllm=trtllm,
        quantization=quantization,
        allow_pickle=spec.model.allow_pickle,
        trust_remote_code=spec.model.trust_remote_code,
    )


def trtllm_build(
    spec: MultimodalModelSpec,
    facts: ModelFacts,
    *,
    version: str,
    gpu: GpuModel,
    convert: Command,
    engines: list[EngineCommand],
) -> TrtllmBuild:
    """Return the commands with what they are bound to."""
    return TrtllmBuild(
        version=version,
        tensor_parallel=spec.engine.parallelism.tensor,
        pipeline_parallel=spec.engine.parallelism.pipeline,
        gpu=gpu,
        convert=convert,
        engines=engines,
        lora=planned_adapters(spec, facts),
    )


VISION_ENGINES: dict[Backend, VisionEngine] = {"TensorRT": "TensorRT", "PyTorch": "Torch"}
"""What upstream's tools make of the vision half: a TensorRT engine beside a TensorRT-LLM one, and
nothing of its own where trtllm-serve runs the checkpoint."""


def serving_plan(
    model: str,
    spec: MultimodalModelSpec,
    sizing: EngineSizing,
    fingerprint: str,
    *,
    trtllm_serve: TrtllmServe | None,
    sharing: GpuSharing | None,
) -> ServingPlan:
    """Return what pods read."""
    limits, pools = sizing.sized.limits, sizing.pools
    planned_pools = MemoryPools(
        cuda_bytes=pools.pool.bytes, pinned_bytes=pools.pinned_bytes, shm_bytes=pools.shm_bytes
    )
    return ServingPlan(
        model=model,
        fingerprint=fingerprint,
        backend=spec.engine.backend,
        pools=planned_pools,
        max_queue_size=spec.runtime.max_queue_size,
        accumulate_tokens=spec.runtime.accumulate_tokens,
        streaming=spec.runtime.streaming,
        bls_instances=bls_instances(spec.runtime.bls_instances),
        feature_cache_bytes=bytes_of(spec.vision.feature_cache_bytes),
        kv_cache=_kv_cache(spec, sizing),
        sharing=sharing,
        encoders=encoder_plan(model, spec, planned_pools),
        gateway=gateway_plan(
            spec,
            # Without a gateway the number is read by nobody.
            concurrency=pools.gateway_concurrency or limits.max_batch_size,
            images=limits.max_images_per_request,
        ),
        trtllm_serve=trtllm_serve,
    )


def _kv_cache(spec: MultimodalModelSpec, sizing: EngineSizing) -> KvCachePlan | None:
    if spec.engine.backend != "TensorRT":
        return None
    return KvCachePlan(
        free_gpu_memory_fraction=sizing.memory.kv_cache_free_gpu_memory_fraction,
        cross_fraction=sizing.memory.cross_kv_cache_fraction,
    )


def _limits(sizing: EngineSizing) -> EngineLimits:
    limits = sizing.sized.limits
    return EngineLimits(
        max_batch_size=limits.max_batch_size,
        max_input_len=limits.max_input_len,
        max_seq_len=limits.max_seq_len,
        max_num_tokens=limits.max_num_tokens,
        max_beam_width=limits.max_beam_width,
        max_images_per_request=limits.max_images_per_request,
        max_multimodal_len=limits.max_multimodal_len,
        max_encoder_input_len=limits.max_encoder_input_len or None,
    )


def _vision(
    spec: MultimodalModelSpec, facts: ModelFacts, sizing: EngineSizing
) -> VisionPlan | None:
    limits, vision = sizing.sized.limits, facts.vision
    if vision is None or not limits.vision_max_batch_size:
        return None
    return VisionPlan(
        engine=VISION_ENGINES.get(spec.engine.backend, spec.vision.engine),
        image_size=vision.image_size,
        features_per_image=limits.features_per_image,
        max_batch_size=limits.vision_max_batch_size,
        opset=ONNX_OPSET,
        tolerance=VISION_TOLERANCE,
    )
