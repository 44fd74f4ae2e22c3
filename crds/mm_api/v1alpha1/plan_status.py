"""`status.plan`: the numbers of the plan, also of one that does not fit."""

from typing import Annotated, Literal

from pydantic import Field

from mm_api.base import ApiModel, Short
from mm_api.documents.build_plan import EngineLimits
from mm_api.documents.model_plan import (
    EncoderBytes,
    EvaluationCost,
    GpuMemory,
    PoolPlan,
    Suggestion,
)
from mm_api.documents.trtllm_build import GpuModel
from mm_api.modalities import Modality

Sentence = Annotated[str, Field(max_length=2048)]


class MemoryStatus(ApiModel):
    """Planned bytes of one replica, over all of its GPUs."""

    weights_bytes: int = Field(ge=0, description="Weights of the language model.")
    vision_bytes: int = Field(ge=0, description="Vision engine with its activations.")
    prompt_table_bytes: int = Field(ge=0, description="Prompt table of image features.")
    kv_cache_bytes: int = Field(ge=0, description="Key-value cache.")
    cuda_pool_bytes: int = Field(ge=0, description="Triton's CUDA pool.")
    pinned_pool_bytes: int = Field(ge=0, description="Triton's pinned host pool.")
    shm_bytes: int = Field(ge=0, description="Shared memory of Python backends.")
    context_bytes: int | None = Field(
        default=None, ge=0, description="CUDA contexts. Absent: no GPU is used."
    )
    other_bytes: int | None = Field(
        default=None, ge=0, description="Activations and buffers. Absent: no GPU is used."
    )
    total_bytes: int = Field(ge=0, description="Sum of all terms.")


class PlanStatus(ApiModel):
    """Summary of the plan."""

    family: Short | None = Field(default=None, description="Family of the checkpoint.")
    dtype: Short | None = Field(default=None, description="Type of weights and activations.")
    trtllm_version: Short | None = Field(
        default=None, description="TensorRT-LLM planned for. Absent: the Reference engine."
    )
    source_digest: Short | None = Field(default=None, description="Identity of the checkpoint.")
    source_revision: Short | None = Field(
        default=None, description="Commit that spec.model.source.huggingFace.revision stood for."
    )
    fingerprint: Short | None = Field(
        default=None, description="Everything that changes the engine's bytes, as one digest."
    )
    short_fingerprint: Short | None = Field(
        default=None, description="First digits of `fingerprint`, for the columns of kubectl."
    )
    serving_hash: Short | None = Field(
        default=None, description="Everything that changes the serving pods, as one digest."
    )
    short_serving_hash: Short | None = Field(
        default=None, description="First digits of `servingHash`, for the columns of kubectl."
    )
    parameters: int | None = Field(default=None, description="Number of weights.")
    features_per_image: int | None = Field(
        default=None, description="Prompt tokens one image becomes."
    )
    input_modalities: Annotated[list[Modality], Field(max_length=4)] = Field(
        default=[], description="What requests may hold."
    )
    max_concurrency: int | None = Field(
        default=None, description="Requests in one replica at a time."
    )
    limits: EngineLimits | None = Field(default=None, description="The engine's limits.")
    gpu: GpuModel | None = Field(
        default=None, description="The GPU planned for. Absent: none is used."
    )
    memory: MemoryStatus | None = Field(default=None, description="Planned bytes.")
    server_limit_bytes: int | None = Field(
        default=None,
        ge=0,
        description="Memory limit of the server container where the spec states none.",
    )
    encoder_memory: EncoderBytes | None = Field(
        default=None,
        description="Where the memory of an encoder's pod goes. Absent: it has no pod of its own.",
    )
    gpu_memory: Annotated[list[GpuMemory], Field(max_length=64)] = Field(
        default=[], description="Planned bytes of each GPU of a replica."
    )
    kv_cache_free_gpu_memory_fraction: float | None = Field(
        default=None, ge=0, le=1, description="Share of what is free when the cache is made."
    )
    cross_kv_cache_fraction: float | None = Field(
        default=None, ge=0, le=1, description="Share of the cache for cross attention."
    )
    pool: PoolPlan | None = Field(default=None, description="Triton's CUDA pool.")
    evaluation: EvaluationCost | None = Field(
        default=None,
        description="What the build takes for the answers that pods are compared with. Absent: "
        "they are not compared.",
    )
    fits: bool | None = Field(default=None, description="Whether the plan fits the hardware.")
    verdict: Literal["Fits", "DoesNotFit"] | None = Field(
        default=None, description="The same as a word."
    )
    short_bytes: int | None = Field(
        default=None, ge=0, description="Missing on the fullest GPU, or in the memory limit."
    )
    largest_term: Short | None = Field(default=None, description="Where the most memory goes.")
    suggestions: Annotated[list[Suggestion], Field(max_length=8)] = Field(
        default=[], description="What would fit, the cheapest first."
    )
    warnings: Annotated[list[Sentence], Field(max_length=16)] = Field(
        default=[], description="What works, and should be known."
    )
