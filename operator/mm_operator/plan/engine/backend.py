"""What differs between the backends: the one Protocol that planning goes through."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from mm_api.documents.lora_adapter import LoraAdapter
from mm_api.documents.model_plan import Fit, MemoryPlan, PlanWarning, Reason
from mm_api.documents.serving_plan import Device, GpuSharing, KvCachePlan, MemoryPools
from mm_api.documents.trtllm_build import GpuModel, TrtllmBuild
from mm_api.documents.trtllm_serve import TrtllmServe
from mm_api.documents.vllm_serve import VllmServe
from mm_api.v1alpha1.vision import VisionEngine
from mm_operator.errors import SpecError
from mm_operator.plan.engine.limits import Limits
from mm_operator.plan.engine.pools import Pools
from mm_operator.plan.engine.request import PlanRequest, Target


@dataclass(frozen=True, slots=True)
class Sizes:
    """One request in numbers."""

    request: PlanRequest
    limits: Limits
    dtype: str
    dtype_reason: Reason
    pools: Pools
    memory: MemoryPlan


@dataclass(frozen=True, slots=True)
class BuildParts:
    """What only some backends have in a build plan."""

    trtllm: TrtllmBuild | None = None
    lora: list[LoraAdapter] | None = None
    disaggregated_encoders: bool = False
    """Backend VLLM: the vision half is exported for encoders in pods of their own."""


@dataclass(frozen=True, slots=True)
class ServingParts:
    """What only some backends have in a serving plan, why, and what should be known about it."""

    kv_cache: KvCachePlan | None = None
    reuse_bytes: int | None = None
    sharing: GpuSharing | None = None
    trtllm_serve: TrtllmServe | None = None
    vllm_serve: VllmServe | None = None
    pools: MemoryPools | None = None
    """None: those of Triton, as they were sized."""

    device: Device = "CPU"
    video_frames: int = 0
    """In one video; 0: none is taken."""

    reasons: tuple[Reason, ...] = ()
    warnings: tuple[PlanWarning, ...] = ()


class Backend(Protocol):
    """One backend with the GPU and the image that are planned for."""

    @property
    def gpu(self) -> GpuModel | None:
        """Return the GPU; None: none is used."""

    @property
    def trtllm_version(self) -> str | None:
        """Return the version of TensorRT-LLM; None: another engine."""

    @property
    def serving_image(self) -> str | None:
        """Return the image of the pods; None: the operator's own."""

    @property
    def vision_engine(self) -> VisionEngine | None:
        """Return what the vision half becomes; None: what the spec says."""

    def request(self, target: Target) -> PlanRequest:
        """Return what is requested of this backend."""

    def problems(self, target: Target, request: PlanRequest) -> Iterator[SpecError]:
        """Yield everything that is known to fail, whatever the sizes."""

    def dtype(self, target: Target, request: PlanRequest) -> tuple[str, Reason]:
        """Return what the engine computes in, and why; SpecError: something rules it out."""

    def pool_copies(self, target: Target, request: PlanRequest) -> int:
        """Return how often an encoder output lies in the CUDA pool; 0: it is in host memory."""

    def memory(
        self, target: Target, request: PlanRequest, limits: Limits, dtype: str, pools: Pools
    ) -> MemoryPlan:
        """Return every byte of a replica, and of an encoder's pod; SpecError: large pools."""

    def late_problems(self, sizes: Sizes) -> Iterator[SpecError]:
        """Yield what is only known once everything is sized."""

    def fit(self, target: Target, sizes: Sizes) -> Fit:
        """Return the verdict, and what would fit instead."""

    def build_parts(self, target: Target, sizes: Sizes) -> BuildParts:
        """Return how the engine is made; SpecError: the tools have no name for the checkpoint."""

    def serving_parts(self, target: Target, sizes: Sizes) -> ServingParts:
        """Return how the engine is served."""

    def reasons(self, sizes: Sizes) -> list[Reason]:
        """Return why each size is what it is."""
