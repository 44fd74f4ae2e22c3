"""What a spec requests of an engine, as plain values: the search for what fits tries many."""

from dataclasses import dataclass

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.trtllm_build import GpuModel
from mm_api.families.family import Family
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_api.v1alpha1.quantity import bytes_of
from mm_operator.plan.engine.serve_options import Option, flattened


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The part of a spec that sizes anything. None: the planner chooses."""

    backend: str
    dtype: str
    max_batch_size: int
    max_input_len: int | None
    max_seq_len: int | None
    max_num_tokens: int | None
    max_beam_width: int
    max_images: int
    max_video_frames: int | None
    max_multimodal_len: int | None
    max_encoder_input_len: int | None
    vision_max_batch_size: int | None
    tensor_parallel: int
    pipeline_parallel: int
    expert_parallel: int
    nodes: int
    """Pods of a replica, each with as many ranks."""
    quantization: str | None
    kv_fraction: float | None
    cross_fraction: float | None
    reuse: bool
    cuda_pool_bytes: int | None
    pinned_pool_bytes: int | None
    max_concurrency: int | None
    max_queue_size: int
    pipeline_processes: int
    """Processes that each hold one request."""

    preprocessing_instances: int
    exposes_triton: bool
    chunked_context: bool
    keys: bool
    """The gateway knows its clients by keys, and none may learn what another one sends."""

    lora: tuple[str, ...]
    plugins: tuple[tuple[str, str], ...]
    extra_build_args: tuple[str, ...]
    extra_args: tuple[str, ...]
    serve_options: tuple[Option, ...]
    """Options of trtllm-serve, by dotted names."""
    guided_decoding: str
    prompt_step: int | None
    """Tokens of prompts in a step beside one of each sequence. None: a complete prompt fits in."""
    family: str | None
    allow_pickle: bool
    gpu_count: int
    """GPUs of a pod as the spec says; 0: it says nothing."""


def request_of(spec: MultimodalModelSpec) -> PlanRequest:
    """Return what a spec requests."""
    engine, cache, pools = spec.engine, spec.engine.kv_cache, spec.runtime.memory_pools
    share = cache.free_gpu_memory_fraction
    return PlanRequest(
        backend=engine.backend,
        dtype=engine.dtype,
        max_batch_size=engine.max_batch_size,
        max_input_len=engine.max_input_len,
        max_seq_len=engine.max_seq_len,
        max_num_tokens=engine.max_num_tokens,
        max_beam_width=engine.max_beam_width,
        max_images=engine.max_images_per_request,
        max_video_frames=engine.max_video_frames,
        max_multimodal_len=engine.max_multimodal_len,
        max_encoder_input_len=engine.max_encoder_input_len,
        vision_max_batch_size=spec.vision.max_batch_size,
        tensor_parallel=engine.parallelism.tensor,
        pipeline_parallel=engine.parallelism.pipeline,
        expert_parallel=engine.parallelism.expert,
        nodes=engine.parallelism.nodes,
        quantization=engine.quantization,
        kv_fraction=None if share == "Auto" else float(share),
        cross_fraction=None if cache.cross_fraction is None else float(cache.cross_fraction),
        reuse=cache.reuse,
        cuda_pool_bytes=None if pools.cuda == "Auto" else bytes_of(pools.cuda),
        pinned_pool_bytes=None if pools.pinned == "Auto" else bytes_of(pools.pinned),
        max_concurrency=spec.runtime.max_concurrency,
        max_queue_size=spec.runtime.max_queue_size,
        pipeline_processes=spec.runtime.pipeline_processes,
        preprocessing_instances=spec.runtime.triton.preprocessing_instance_count or 1,
        chunked_context=bool(spec.runtime.triton.enable_chunked_context),
        exposes_triton=spec.runtime.triton.expose,
        keys=spec.gateway.auth_secret_ref is not None,
        lora=tuple(one.name for one in engine.lora),
        plugins=tuple(sorted(engine.plugins.items())),
        extra_build_args=tuple(engine.extra_build_args),
        extra_args=tuple(engine.extra_args),
        serve_options=flattened(engine.extra_llm_api_options or {}),
        guided_decoding=engine.guided_decoding,
        prompt_step=None,
        family=spec.model.family,
        allow_pickle=spec.model.allow_pickle,
        gpu_count=spec.runtime.gpu.count,
    )


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything a plan follows from."""

    model: str
    spec: MultimodalModelSpec
    facts: ModelFacts
    builder_version: str
    gpu: GpuModel | None = None
    """Backend Reference uses none."""

    image: str | None = None
    """That builds; None: the one of the spec."""

    given_version: str | None = None
    serving_image: str | None = None
    """Image of the pods; None: the one of the spec, or the one that builds."""

    uid: str = ""
    """Uid of the model, from which servers and encoders know each other; empty: it has none."""


@dataclass(frozen=True, slots=True)
class Target:
    """A model and its checkpoint."""

    model: str
    spec: MultimodalModelSpec
    facts: ModelFacts
    family: Family
