"""The plan of a model: every limit, flag, byte and pool, computed before a GPU is requested.

Written by `mmctl plan -o json`. `BuildPlan` and `ServingPlan` are the parts of it that Jobs and
pods read; they are kept apart because models that share an engine share its `BuildPlan`, while
memory and pools belong to one model. All sizes are bytes.
"""

from typing import Literal

from pydantic import Field

from mm_api.backends import Name
from mm_api.base import Document, Short
from mm_api.documents.build_plan import FINGERPRINT_PATTERN, BuildPlan
from mm_api.documents.serving_plan import ServingPlan
from mm_api.documents.trtllm_build import Command, EngineCommand, GpuModel
from mm_api.documents.trtllm_serve import TrtllmServe
from mm_api.documents.vllm_serve import VllmServe

Bound = Literal["GatewayConcurrency", "ExecutorQueue"]


class PlannedLimits(Document):
    """Limits of the engines (TensorRT-LLM's names)."""

    features_per_image: int = Field(
        ge=0, description="Rows of the prompt table for one image, or encoder tokens (mllama)."
    )
    max_images_per_request: int = Field(ge=0)
    max_multimodal_len: int = Field(
        ge=0, description="Rows of the prompt table over all requests; the server divides it back."
    )
    max_encoder_input_len: int = Field(ge=0, description="0: the family has no cross attention.")
    max_input_len: int = Field(ge=1)
    max_seq_len: int = Field(ge=1)
    max_num_tokens: int = Field(ge=1)
    max_batch_size: int = Field(ge=1)
    max_beam_width: int = Field(ge=1)
    vision_max_batch_size: int = Field(ge=0, description="Images or tiles; 0: no vision engine.")


class GpuMemory(Document):
    """Planned bytes on one GPU."""

    rank: int = Field(ge=0, description="Which of the replica's GPUs.")
    weights_bytes: int = Field(
        ge=0, description="This rank's share of the language model; both engines, where it has two."
    )
    vision_engine_bytes: int = Field(ge=0, description="Weights of the vision engine.")
    vision_activation_bytes: int = Field(ge=0, description="Peak at the largest batch.")
    prompt_table_bytes: int = Field(ge=0, description="Prompt table of image features.")
    cuda_pool_bytes: int = Field(ge=0, description="Triton's CUDA pool.")
    kv_cache_bytes: int = Field(ge=0, description="Key-value cache of full batches.")
    context_bytes: int = Field(ge=0, description="CUDA contexts of every process.")
    other_bytes: int = Field(ge=0, description="Activations and buffers.")
    total_bytes: int = Field(ge=0, description="Sum of all terms.")
    gpu_memory_bytes: int = Field(ge=0, description="What there is.")


class HostMemory(Document):
    """Bytes of the server container: where a GPU computes, its engine is read through them."""

    weights_bytes: int = Field(ge=0)
    vision_bytes: int = Field(ge=0)
    prompt_table_bytes: int = Field(default=0, ge=0)
    kv_cache_bytes: int = Field(default=0, ge=0)
    feature_cache_bytes: int = Field(
        default=0, ge=0, description="Features of images seen before, at the most."
    )
    total_bytes: int = Field(ge=0)
    step_bytes: int = Field(ge=0, description="At the most: what computing takes beside it.")
    loading_bytes: int = Field(ge=0, description="At the most: copies of weights that are read.")
    process_bytes: int = Field(ge=0, description="What the processes take beside all of it.")
    planned_limit_bytes: int = Field(
        ge=0,
        description="Memory limit of the container where the spec states none: all of it, pools, "
        "/dev/shm and an eighth.",
    )
    limit_bytes: int | None = Field(default=None, description="None: the spec sets no limit.")


class EncoderBytes(Document):
    """Planned bytes of one vision encoder in a pod of its own."""

    vision_bytes: int = Field(ge=0, description="Vision engine with its activations.")
    feature_cache_bytes: int = Field(ge=0, description="Features of images seen before.")
    cuda_pool_bytes: int = Field(ge=0, description="Triton's CUDA pool.")
    context_bytes: int | None = Field(
        default=None, ge=0, description="CUDA contexts. Absent: no GPU is used."
    )
    total_bytes: int = Field(ge=0, description="Sum of all terms.")
    planned_limit_bytes: int | None = Field(
        default=None, ge=0, description="Memory limit of the container where the spec states none."
    )


class EncoderMemory(EncoderBytes):
    """The same with its limit: the bytes are those of its GPU, or of host memory without."""

    limit_bytes: int | None = Field(
        default=None, description="Host memory the spec allows. None: it sets no limit."
    )


class MemoryPlan(Document):
    """Where the memory goes."""

    per_gpu: list[GpuMemory]
    host: HostMemory
    encoder: EncoderMemory | None = Field(
        default=None, description="Of each encoder in a pod of its own. None: there are none."
    )
    kv_bytes_per_token: int = Field(ge=0, description="Per GPU.")
    cross_kv_bytes_per_token: int = Field(ge=0, description="Per GPU and token of the encoder.")
    kv_cache_free_gpu_memory_fraction: float = Field(
        ge=0, le=1, description="Of what is free when the cache is made; rounded down."
    )
    cross_kv_cache_fraction: float | None = Field(
        default=None, description="Share of the cache for cross attention. None: not passed."
    )
    gpu_memory_utilization: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Backend VLLM: the part of a GPU that vLLM may take, contexts not counted.",
    )
    kv_pool_bytes: int = Field(ge=0, description="What the fraction sets aside at the least.")
    full_length_sequences: int = Field(
        ge=0, description="Sequences of maxSeqLen the pool holds at the least."
    )
    pinned_pool_bytes: int = Field(ge=0)
    shm_bytes: int = Field(ge=0)


class EvaluationCost(Document):
    """What a build takes to compute the checkpoint's own answers on the processor."""

    dtype: Short = Field(description="What they are computed in.")
    memory_bytes: int = Field(
        ge=0, description="Host memory of the build; under a lower limit the answers are left out."
    )
    seconds: int = Field(ge=0, description="Estimate, on two cores.")


class PoolPlan(Document):
    """Triton's CUDA pool, never below Triton's own 64 MiB.

    ceil512(copies x liveRequests x tableBytesPerRequest x factor) + 1 MiB.
    """

    table_bytes_per_request: int = Field(ge=0, description="Encoder output of one request.")
    copies: int = Field(ge=0, description="How often it lies in the pool; 0: it is in host memory.")
    live_requests: int = Field(ge=0, description="Requests that hold one at the same time.")
    factor: float = Field(ge=1, description="Room for fragmentation.")
    bytes: int = Field(ge=0, description="The pool.")
    bounded_by: Bound = Field(description="The limit that keeps the number of requests.")


class Change(Document):
    """A field with its planned and its suggested value."""

    path: Short = Field(description="The field.")
    current: Short = Field(description="As it is planned.")
    suggested: Short = Field(description="With which it would fit.")


class Suggestion(Document):
    """The smallest changes of their kind with which the plan fits."""

    changes: list[Change] = Field(max_length=8, description="All of them together.")
    gpus: int = Field(ge=1, description="GPUs of a replica then.")
    total_bytes: int = Field(ge=0, description="Of the fullest GPU then.")
    free_bytes: int = Field(ge=0, description="Left on it then.")


class Fit(Document):
    """Whether the model fits on the GPUs."""

    verdict: Literal["Fits", "DoesNotFit"]
    short_bytes: int = Field(ge=0, description="Missing on the fullest GPU.")
    largest_term: str
    message: str
    suggestions: list[Suggestion] = Field(default=[], description="The cheapest first.")


class PlanWarning(Document):
    """Something that works, and that the user should know."""

    code: str
    message: str


class PlanError(Document):
    """Something that cannot work: what is wrong, what was expected, what to do."""

    path: str
    code: str
    message: str


class Reason(Document):
    """Why a number is what it is."""

    field: str
    value: str
    reason: str


class ModelPlan(Document):
    """Everything that follows from a spec, a checkpoint, a GPU and an image."""

    format_version: Literal[1] = 1
    model: str
    family: str
    backend: Name
    dtype: str = ""
    fingerprint: str | None = Field(default=None, pattern=FINGERPRINT_PATTERN)
    trtllm_version: str | None = None
    gpu: GpuModel | None = None
    tensor_parallel: int = Field(default=1, ge=1)
    pipeline_parallel: int = Field(default=1, ge=1)
    limits: PlannedLimits | None = None
    convert: Command | None = None
    engines: list[EngineCommand] = Field(default=[], description="In the order of the build.")
    serve: TrtllmServe | None = Field(
        default=None, description="Backend PyTorch: the server's command; nothing is built."
    )
    vllm: VllmServe | None = Field(
        default=None, description="Backend VLLM: the server's command; nothing is built."
    )
    memory: MemoryPlan | None = None
    pool: PoolPlan | None = None
    fit: Fit | None = None
    evaluation: EvaluationCost | None = Field(
        default=None,
        description="What the build takes for the answers that pods are compared with. None: "
        "switched off, or engines of this backend are not compared.",
    )
    build_plan: BuildPlan | None = Field(
        default=None, description="Backend Reference: what the build Job reads."
    )
    serving_plan: ServingPlan | None = Field(
        default=None, description="Backend Reference: what pods read."
    )
    bottleneck: str | None = Field(
        default=None,
        description="Whether encoders in pods of their own or the language model are, and how that "
        "is known. None: images are encoded where answers are.",
    )
    reasons: list[Reason] = Field(default=[], description="Why each number is what it is.")
    warnings: list[PlanWarning] = Field(default=[], description="It works, but.")
    errors: list[PlanError] = Field(default=[], description="Empty: the plan is valid.")

    @property
    def ranks(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel
