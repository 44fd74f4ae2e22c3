"""What Jobs and pods read of a plan: the `BuildPlan` and the `ServingPlan`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mm_api.documents.build_plan import BuildPlan, EngineSpec, VisionBuild, VisionPlan
from mm_api.documents.lora_adapter import LoraAdapter
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import EvaluationCost, PlanWarning
from mm_api.documents.serving_plan import GatewayPlan, KeyLimitPlan, ServingPlan
from mm_api.documents.trtllm_build import GpuModel, TrtllmBuild
from mm_api.dtypes import DTYPE_BYTES
from mm_api.evaluation import evaluation_cost
from mm_api.v1alpha1 import MultimodalModelSpec, duration
from mm_api.v1alpha1.quantity import bytes_of
from mm_api.v1alpha1.vision import TENSORRT, VisionEngine
from mm_operator.digests import digest, plain
from mm_operator.plan.engine.backend import BuildParts, ServingParts, Sizes
from mm_operator.plan.engine.encoders import encoder_plan
from mm_operator.plan.engine.limits import Limits
from mm_operator.plan.engine.request import Target

ONNX_OPSET = 18
"""Lowest that torch's exporter writes without converting."""

VISION_TOLERANCE = 1e-4
"""Export against torch in float32 differed by at most 4.8e-6 on the tiny model; 20 times that."""

TENSORRT_TOLERANCES: Final[Mapping[str, float]] = {"float16": 1e-2, "float32": 1e-3}
"""Relative, of the features' norm: CLIP ViT-L/14-336 with random weights was 3.7e-3 away in float16
(TensorRT 10.6, H200)."""


def build_plan(
    target: Target,
    sizes: Sizes,
    parts: BuildParts,
    *,
    vision_engine: VisionEngine | None,
    gpu: GpuModel | None,
    builder_version: str,
) -> BuildPlan:
    """Return what the build Job reads; `gpu` is the one that is planned for."""
    spec, facts = target.spec, target.facts
    tensorrt = None
    if gpu is not None and vision_engine is None and spec.vision.engine == TENSORRT:
        half = DTYPE_BYTES[sizes.dtype] == DTYPE_BYTES["float16"]
        tensorrt = VisionBuild(
            dtype="float16" if half else "float32",
            product=gpu.product,
            compute_capability=gpu.compute_capability,
        )
    engine = EngineSpec(
        source_digest=facts.source_digest,
        family=facts.family,
        backend=spec.engine.backend,
        dtype=sizes.dtype,
        limits=sizes.limits.engine,
        vision=_vision(target, sizes.limits, vision_engine or spec.vision.engine, tensorrt),
        builder_version=builder_version,
        disaggregated_encoders="On" if parts.disaggregated_encoders else None,
    )
    engine = with_evaluation(engine, facts, spec)
    if parts.trtllm is not None and sizes.request.guided_decoding == "Off":
        engine = engine.model_copy(update={"guided_decoding": "Off"})
    return BuildPlan(
        fingerprint=engine_fingerprint(engine, parts.trtllm, parts.lora),
        engine=engine,
        facts=facts,
        trtllm=parts.trtllm,
        lora=parts.lora,
        allow_pickle=spec.model.allow_pickle,
        trust_remote_code=spec.model.trust_remote_code,
    )


def serving_plan(
    target: Target, sizes: Sizes, parts: ServingParts, *, fingerprint: str, uid: str
) -> ServingPlan:
    """Return what pods read; `uid` is the model's, empty where it has none."""
    model, spec, limits, pools = target.model, target.spec, sizes.limits.engine, sizes.pools
    return ServingPlan(
        model=model,
        fingerprint=fingerprint,
        backend=spec.engine.backend,
        device=parts.device,
        pools=parts.pools or pools.planned,
        max_queue_size=spec.runtime.max_queue_size,
        accumulate_tokens=spec.runtime.accumulate_tokens,
        streaming=spec.runtime.streaming,
        bls_instances=spec.runtime.bls_processes,
        llmapi=spec.runtime.llmapi_processes > 0 or None,
        enable_chunked_context=spec.runtime.triton.enable_chunked_context,
        max_queue_delay_microseconds=spec.runtime.triton.max_queue_delay_microseconds,
        preprocessing_instance_count=spec.runtime.triton.preprocessing_instance_count,
        postprocessing_instance_count=spec.runtime.triton.postprocessing_instance_count,
        feature_cache_bytes=bytes_of(spec.vision.feature_cache_bytes),
        reuse_bytes=parts.reuse_bytes,
        kv_cache=parts.kv_cache,
        sharing=parts.sharing,
        encoders=encoder_plan(model, spec, pools.planned, uid),
        gateway=_gateway(
            spec,
            concurrency=pools.gateway_concurrency,
            images=limits.max_images_per_request,
            video_frames=parts.video_frames,
        ),
        trtllm_serve=parts.trtllm_serve,
        vllm_serve=parts.vllm_serve,
    )


def _vision(
    target: Target, limits: Limits, engine: VisionEngine, tensorrt: VisionBuild | None
) -> VisionPlan | None:
    vision = target.facts.vision
    if vision is None or not limits.vision_batch or not target.family.has_tower:
        return None
    return VisionPlan(
        engine=engine,
        image_size=vision.image_size,
        features_per_image=limits.features_per_image,
        max_batch_size=limits.vision_batch,
        opset=ONNX_OPSET,
        tolerance=TENSORRT_TOLERANCES[tensorrt.dtype] if tensorrt else VISION_TOLERANCE,
        tensorrt=tensorrt,
    )


def _gateway(
    spec: MultimodalModelSpec, *, concurrency: int, images: int, video_frames: int
) -> GatewayPlan:
    """Return the limits that the gateway enforces.

    `concurrency`: requests past the gateway, as the CUDA pool was computed for. `video_frames`: of
    one video; 0: none is taken.
    """
    gateway = spec.gateway
    return GatewayPlan(
        max_concurrency=concurrency,
        max_queue_size=gateway.max_queue_size,
        max_image_bytes=bytes_of(gateway.max_image_bytes),
        max_image_pixels=gateway.max_image_pixels,
        max_images_per_request=images,
        max_video_frames=video_frames,
        allowed_hosts=list(gateway.allowed_hosts),
        allow_private_networks=gateway.allow_private_networks,
        fetch_timeout_seconds=duration.parse(gateway.fetch_timeout).total_seconds(),
        request_timeout_seconds=duration.parse(gateway.request_timeout).total_seconds(),
        keep_alive_seconds=duration.parse(gateway.stream_keep_alive).total_seconds(),
        max_queue_tokens=gateway.max_queue_tokens,
        key_limits=[KeyLimitPlan(**limit.model_dump()) for limit in gateway.key_limits] or None,
    )


_MIB = 1 << 20


def with_evaluation(engine: EngineSpec, facts: ModelFacts, spec: MultimodalModelSpec) -> EngineSpec:
    """Return the engine, without answers of the checkpoint where the spec switches them off.

    Only an engine that would have them is another one without.
    """
    if spec.build.evaluation == "Off" and evaluation_cost(engine, facts) is not None:
        return engine.model_copy(update={"evaluation": "Off"})
    return engine


def class_warnings(facts: ModelFacts) -> Iterator[PlanWarning]:
    """Yield a warning where the inspection has not looked at the checkpoint's class."""
    if facts.uncompared:
        yield PlanWarning(
            code="ClassNotCompared",
            message="weights and config.json are not compared with the checkpoint's class: "
            + facts.uncompared,
        )


def evaluation_warnings(
    cost: EvaluationCost | None, spec: MultimodalModelSpec
) -> Iterator[PlanWarning]:
    """Yield a warning where a build computes no answers, although the spec leaves them on."""
    if cost is None:
        if spec.build.evaluation != "Off":
            yield PlanWarning(
                code="EvaluationUnavailable",
                message="a build cannot run this checkpoint on the processor: pods will not be "
                "compared with it, and any answer makes them Ready. Set spec.build.evaluation to "
                "Off to say that this is intended",
            )
        return
    limit = spec.build.resources.memory_limit
    if limit is None or limit >= cost.memory_bytes:
        return
    yield PlanWarning(
        code="EvaluationSkipped",
        message=f"spec.build.resources.limits.memory is {limit // _MIB}Mi, and the checkpoint's "
        f"own answers take {-(-cost.memory_bytes // _MIB)}Mi to compute: pods will not be compared "
        "with the checkpoint. Raise the limit, or set spec.build.evaluation to Off",
    )


_STAGED = ("sourceDigest", "family", "backend", "builderVersion")
"""What the files of a staged checkpoint depend on."""


def engine_fingerprint(
    engine: EngineSpec,
    trtllm: TrtllmBuild | None = None,
    lora: Sequence[LoraAdapter] | None = None,
) -> str:
    """Return the fingerprint of an engine: everything that changes its bytes, and nothing else.

    How much memory the GPU has decides whether a plan fits, not what is built; and an adapter is
    known by its digest, wherever it lies.
    """
    kept = {"lora": [_known(plain(one)) for one in lora]} if lora else {}
    if engine.traits.stages:
        # The checkpoint is kept as it is: limits and types are flags of the server.
        staged = {name: plain(engine)[name] for name in _STAGED}
        staged |= {"vision": plain(engine)["vision"]} if engine.disaggregated_encoders else {}
        return digest(staged | kept)
    if trtllm is None:
        return digest(plain(engine) | kept)
    commands = plain(trtllm)
    del commands["gpu"]["memoryBytes"]
    # Beside the engine, which is the same with and without: engines that were built before stay.
    commands.pop("tokenizerInfo", None)
    commands["lora"] = [_known(adapter) for adapter in commands["lora"]]
    return digest({**plain(engine), "trtllm": commands})


def fingerprint_of(plan: BuildPlan) -> str:
    """Return the fingerprint that follows from a plan, whatever fingerprint it has."""
    return engine_fingerprint(plan.engine, plan.trtllm, plan.lora)


def _known(adapter: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in adapter.items() if name != "source"}
