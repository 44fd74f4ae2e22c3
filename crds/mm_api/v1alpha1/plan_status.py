"""`status.plan`: the numbers of the plan, also of one that does not fit."""

from typing import Annotated, Literal

from pydantic import Field

from mm_api.base import ApiModel

Short = Annotated[str, Field(max_length=1024)]
Sentence = Annotated[str, Field(max_length=2048)]


class LimitsStatus(ApiModel):
    """The engine's limits as numbers."""

    max_batch_size: int = Field(description="Requests decoded in one step.")
    max_input_len: int = Field(description="Longest prompt in tokens, image features included.")
    max_seq_len: int = Field(description="Prompt and answer together, in tokens.")
    max_num_tokens: int = Field(description="Tokens in one step over all requests.")
    max_beam_width: int = Field(description="Widest beam search.")
    max_images_per_request: int = Field(description="Images in one request.")
    max_multimodal_len: int = Field(description="Rows of the prompt table over all requests.")
    max_encoder_input_len: int | None = Field(
        default=None, description="Tokens that cross attention reads. Absent: there is none."
    )


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


class EncoderMemoryStatus(ApiModel):
    """Planned bytes of one vision encoder in a pod of its own."""

    vision_bytes: int = Field(ge=0, description="Vision engine with its activations.")
    feature_cache_bytes: int = Field(ge=0, description="Features of pictures seen before.")
    cuda_pool_bytes: int = Field(ge=0, description="Triton's CUDA pool.")
    context_bytes: int | None = Field(
        default=None, ge=0, description="CUDA contexts. Absent: no GPU is used."
    )
    total_bytes: int = Field(ge=0, description="Sum of all terms.")


class GpuStatus(ApiModel):
    """The GPU the plan was made for."""

    product: Short = Field(description="As in the node label nvidia.com/gpu.product.")
    memory_bytes: int = Field(ge=1, description="What a process can have of its memory.")
    compute_capability: Short = Field(description="For example 9.0.")


class GpuMemoryStatus(ApiModel):
    """Planned bytes on one GPU."""

    rank: int = Field(ge=0, description="Which of the replica's GPUs.")
    weights_bytes: int = Field(ge=0, description="This rank's share of the language model.")
    vision_engine_bytes: int = Field(ge=0, description="Weights of the vision engine.")
    vision_activation_bytes: int = Field(ge=0, description="Peak at the largest batch.")
    prompt_table_bytes: int = Field(ge=0, description="Prompt table of image features.")
    cuda_pool_bytes: int = Field(ge=0, description="Triton's CUDA pool.")
    kv_cache_bytes: int = Field(ge=0, description="Key-value cache of full batches.")
    context_bytes: int = Field(ge=0, description="CUDA contexts of every process.")
    other_bytes: int = Field(ge=0, description="Activations and buffers.")
    total_bytes: int = Field(ge=0, description="Sum of all terms.")
    gpu_memory_bytes: int = Field(ge=0, description="What there is.")


class PoolStatus(ApiModel):
    """How Triton's CUDA pool was computed."""

    table_bytes_per_request: int = Field(ge=0, description="Encoder output of one request.")
    copies: int = Field(ge=1, description="How often it lies in the pool.")
    live_requests: int = Field(ge=0, description="Requests that hold one at the same time.")
    factor: float = Field(ge=1, description="Room for fragmentation.")
    bytes: int = Field(ge=0, description="The pool.")
    bounded_by: Short = Field(description="The limit that keeps the number of requests.")


class ChangeStatus(ApiModel):
    """A field with its planned and its suggested value."""

    path: Short = Field(description="The field.")
    current: Short = Field(description="As it is planned.")
    suggested: Short = Field(description="With which it would fit.")


class SuggestionStatus(ApiModel):
    """Changes with which the plan fits."""

    changes: Annotated[list[ChangeStatus], Field(max_length=8)] = Field(
        description="All of them together."
    )
    gpus: int = Field(ge=1, description="GPUs of a replica then.")
    total_bytes: int = Field(ge=0, description="Of the fullest GPU then.")
    free_bytes: int = Field(ge=0, description="Left on it then.")


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
    serving_hash: Short | None = Field(
        default=None, description="Everything that changes the serving pods, as one digest."
    )
    parameters: int | None = Field(default=None, description="Number of weights.")
    features_per_image: int | None = Field(
        default=None, description="Prompt tokens one image becomes."
    )
    max_concurrency: int | None = Field(
        default=None, description="Requests in one replica at a time."
    )
    limits: LimitsStatus | None = Field(default=None, description="The engine's limits.")
    gpu: GpuStatus | None = Field(
        default=None, description="The GPU planned for. Absent: none is used."
    )
    memory: MemoryStatus | None = Field(default=None, description="Planned bytes.")
    encoder_memory: EncoderMemoryStatus | None = Field(
        default=None,
        description="Where the memory of an encoder's pod goes. Absent: it has no pod of its own.",
    )
    gpu_memory: Annotated[list[GpuMemoryStatus], Field(max_length=64)] = Field(
        default=[], description="Planned bytes of each GPU of a replica."
    )
    kv_cache_free_gpu_memory_fraction: float | None = Field(
        default=None, ge=0, le=1, description="Share of what is free when the cache is made."
    )
    cross_kv_cache_fraction: float | None = Field(
        default=None, ge=0, le=1, description="Share of the cache for cross attention."
    )
    pool: PoolStatus | None = Field(default=None, description="Triton's CUDA pool.")
    fits: bool | None = Field(default=None, description="Whether the plan fits the hardware.")
    verdict: Literal["Fits", "DoesNotFit"] | None = Field(
        default=None, description="The same as a word."
    )
    short_bytes: int | None = Field(
        default=None, ge=0, description="Missing on the fullest GPU, or in the memory limit."
    )
    largest_term: Short | None = Field(default=None, description="Where the most memory goes.")
    suggestions: Annotated[list[SuggestionStatus], Field(max_length=8)] = Field(
        default=[], description="What would fit, the cheapest first."
    )
    warnings: Annotated[list[Sentence], Field(max_length=16)] = Field(
        default=[], description="What works, and should be known."
    )
