"""How one model's pods serve an engine: limits and pools that do not change the engine's bytes.

Written by the operator into a ConfigMap, read by `mm-runtime serve` and `mm-runtime gateway`.
"""

from typing import Final, Literal

from pydantic import Field

from mm_api.backends import Name
from mm_api.base import Document
from mm_api.documents.build_plan import FINGERPRINT_PATTERN
from mm_api.documents.trtllm_serve import TrtllmServe
from mm_api.documents.vllm_serve import VllmServe

Device = Literal["CPU", "CUDA"]

KEY_NAME_PATTERN: Final = r"^[a-zA-Z0-9]([-_.a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$"
"""Name of a key: of a bearer token in the Secret of the gateway."""

ANY_KEY: Final = "*"
"""In limits: each key that has none of its own."""


class MemoryPools(Document):
    """Triton's memory pools and the shared memory of its Python backends, in bytes."""

    cuda_bytes: int = Field(ge=0)
    pinned_bytes: int = Field(ge=0)
    shm_bytes: int = Field(ge=0)


class KvCachePlan(Document):
    """How TensorRT-LLM's paged caches share what is free on the GPU when they are made."""

    free_gpu_memory_fraction: float = Field(ge=0, le=1)
    cross_fraction: float | None = Field(
        default=None, description="Share for cross attention. None: the engine has none."
    )
    reuse: bool | None = Field(
        default=None,
        description="Blocks of earlier requests stay for prompts that begin alike. None: they do "
        "not.",
    )


class GpuSharing(Document):
    """How vision encoder and language model use one GPU at a time."""

    mode: Literal["MPS", "TimeSlicing"]
    thread_percentage: int = Field(
        ge=1, le=100, description="Of the GPU's threads, for the encoder under MPS."
    )


class EncoderPlan(Document):
    """Vision encoders in pods of their own, as the pods beside them and they themselves know them.

    Their number is left out: it may change without a new revision of any pod.
    """

    addresses: list[str] = Field(
        min_length=1,
        description="HOST:PORT of Triton's gRPC; each address that a host has is one encoder.",
    )
    timeout_seconds: float = Field(
        gt=0, description="After this a server encodes the images of a request itself."
    )
    pools: MemoryPools = Field(description="Of an encoder's pod.")
    key: str = Field(
        default="",
        description="What a server shows an encoder with each request. Empty: encoders answer "
        "every client that reaches them.",
    )


class KeyLimitPlan(Document):
    """What the clients of one key may use of one replica."""

    name: str = Field(description="Name of the key; `*` is each key without limits of its own.")
    requests_per_minute: int | None = Field(default=None, ge=1)
    concurrent_requests: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(
        default=None, ge=1, description="Of prompts and answers, image features included."
    )
    weight: int = Field(default=1, ge=1, description="Share of the replica while others wait.")


class GatewayPlan(Document):
    """Limits the gateway enforces. The CUDA pool was computed for `max_concurrency`."""

    max_concurrency: int = Field(ge=1, description="Requests past the gateway at one time.")
    max_queue_size: int = Field(
        ge=0, description="Requests that wait in the gateway; more get 429."
    )
    max_image_bytes: int = Field(ge=1)
    max_image_pixels: int = Field(ge=1)
    max_images_per_request: int = Field(ge=0)
    max_video_frames: int = Field(
        default=0, ge=0, description="Frames kept of one video; 0: videos are refused."
    )
    allowed_hosts: list[str] = Field(
        default=[], description="Hosts images may be fetched from; empty allows every public host."
    )
    allow_private_networks: bool = False
    fetch_timeout_seconds: float = Field(gt=0)
    request_timeout_seconds: float = Field(gt=0)
    keep_alive_seconds: float = Field(
        default=15, gt=0, description="Silence after which a stream gets a comment."
    )
    max_queue_tokens: int | None = Field(
        default=None, ge=1, description="Tokens of requests that wait. None: any number."
    )
    key_limits: list[KeyLimitPlan] | None = Field(
        default=None, description="By the name of a key. None: no key has limits."
    )


class ServingPlan(Document):
    """Everything a pod needs besides the engine's manifest."""

    format_version: Literal[1] = 1
    model: str = Field(description="Name clients send as `model`.")
    fingerprint: str = Field(pattern=FINGERPRINT_PATTERN)
    manifest_sha256: str | None = Field(
        default=None,
        description="Of the engine's manifest as its build reported it; pods refuse another one. "
        "No part of a revision: an engine that is built again keeps the pods that run.",
    )
    backend: Name
    device: Device = Field(
        default="CPU",
        description="Backend Reference: where torch computes. CUDA: on one GPU, and image features "
        "travel between Triton's models as GPU tensors. Other backends have their own rule.",
    )
    pools: MemoryPools
    max_queue_size: int = Field(ge=0, description="Requests that wait inside Triton's LLM model.")
    accumulate_tokens: bool = False
    streaming: bool = Field(
        default=True,
        description="Triton's models ensemble and tensorrt_llm_bls may answer in pieces. If not, "
        "they take calls for one answer (ModelInfer, HTTP infer), which Triton refuses for models "
        "that may, and the gateway calls token_ensemble.",
    )
    bls_instances: int = Field(
        default=1,
        ge=0,
        description="Requests that Triton's model tensorrt_llm_bls serves at one time; 0: none.",
    )
    llmapi: bool | None = Field(
        default=None,
        description="Triton serves the tensors of TensorRT-LLM's LLM API, with as many processes "
        "as tensorrt_llm_bls. None: it does not.",
    )
    max_queue_delay_microseconds: int | None = Field(default=None, ge=0)
    enable_chunked_context: bool | None = None
    preprocessing_instance_count: int | None = Field(default=None, ge=1)
    postprocessing_instance_count: int | None = Field(default=None, ge=1)
    feature_cache_bytes: int = Field(
        default=0,
        ge=0,
        description="Host memory for features of images seen before, of the process that encodes "
        "by plan; 0: none.",
    )
    reuse_bytes: int | None = Field(
        default=None,
        ge=1,
        description="Backend Reference: memory for keys and values of earlier requests. None: none "
        "are kept.",
    )
    kv_cache: KvCachePlan | None = Field(
        default=None, description="Backend TensorRT only: other engines size their own."
    )
    sharing: GpuSharing | None = Field(
        default=None, description="None: no two processes of the server use one GPU."
    )
    encoders: EncoderPlan | None = Field(
        default=None, description="None: the server itself encodes images."
    )
    gateway: GatewayPlan
    trtllm_serve: TrtllmServe | None = Field(
        default=None, description="Backend PyTorch: the server's command. None: another backend."
    )
    vllm_serve: VllmServe | None = Field(
        default=None, description="Backend VLLM: the server's command. None: another backend."
    )

    @property
    def written_by_server(self) -> bool:
        """Return whether the server reads messages and files of media, and writes the prompts."""
        return self.trtllm_serve is not None or self.vllm_serve is not None

    @property
    def features_bytes(self) -> int:
        """Return the size of the folder in which features are handed to vLLM; 0: there is none."""
        folder = self.vllm_serve.features if self.vllm_serve is not None else None
        return 0 if folder is None else folder.most_bytes
