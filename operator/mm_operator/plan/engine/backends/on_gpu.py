"""What engines of TensorRT-LLM have in common: dtype, bytes on each GPU, what would fit."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from mm_api.documents.model_plan import Fit, MemoryPlan, PlanWarning, Reason
from mm_api.documents.trtllm_build import GpuModel
from mm_api.families.family import Kind
from mm_api.v1alpha1.vision import VisionEngine
from mm_operator.errors import SpecError
from mm_operator.plan.engine.backend import BuildParts, ServingParts, Sizes
from mm_operator.plan.engine.cache import cache_size, fraction_of
from mm_operator.plan.engine.checks import Case, Check
from mm_operator.plan.engine.dtypes import FP8_SINCE, capability, choose_dtype
from mm_operator.plan.engine.gpu_support import gpu_warnings
from mm_operator.plan.engine.limits import Limits
from mm_operator.plan.engine.memory import MemoryInputs, plan_memory
from mm_operator.plan.engine.pools import BLS_COPIES, ENSEMBLE_COPIES, Pools
from mm_operator.plan.engine.request import PlanRequest, Target, request_of
from mm_operator.plan.engine.stored import cache_format
from mm_operator.plan.engine.suggestions import fullest, suggested, verdict
from mm_operator.plan.engine.tables import era, table, version_of


@dataclass(frozen=True, slots=True)
class OnGpu(ABC):
    """A backend of TensorRT-LLM."""

    checks: ClassVar[tuple[Check, ...]]
    """What is checked before anything is sized, in order."""

    vision_engine: ClassVar[VisionEngine]
    quantizes: ClassVar[bool]

    gpu: GpuModel
    trtllm_version: str
    version_reason: str
    serving_image: str | None

    @abstractmethod
    def build_parts(self, target: Target, sizes: Sizes) -> BuildParts:
        """Return how the engine is made."""

    @abstractmethod
    def serving_parts(self, target: Target, sizes: Sizes) -> ServingParts:
        """Return how the engine is served."""

    def request(self, target: Target) -> PlanRequest:
        return request_of(target.spec)

    def problems(self, target: Target, request: PlanRequest) -> Iterator[SpecError]:
        case = Case(
            request, target.facts, target.family, self.gpu, self.trtllm_version, target.model
        )
        return (problem for check in self.checks for problem in check(case))

    def dtype(self, target: Target, request: PlanRequest) -> tuple[str, Reason]:
        return choose_dtype(request.dtype, target.family, self.gpu, self.trtllm_version)

    def pool_copies(self, target: Target, request: PlanRequest) -> int:  # noqa: ARG002
        # Recordings go through `whisper_bls`, texts and images through an ensemble.
        return BLS_COPIES if target.family.reads_audio else ENSEMBLE_COPIES

    def memory(
        self, target: Target, request: PlanRequest, limits: Limits, dtype: str, pools: Pools
    ) -> MemoryPlan:
        """Return the bytes on the GPU of each rank."""
        if pools.cuda.bytes >= self.gpu.memory_bytes:
            raise SpecError(
                "PoolAboveGpuMemory",
                f"a CUDA pool of {pools.cuda.bytes:,} bytes is above the GPU's "
                f"{self.gpu.memory_bytes:,}: Triton would run without a pool; lower "
                "spec.runtime.maxConcurrency or spec.engine.maxBatchSize",
                "spec.runtime.memoryPools.cuda",
            )
        blocks = era(table("tools")["tokensPerBlock"], version_of(self.trtllm_version))["tokens"]
        format_ = cache_format(request, target.facts)
        cache = cache_size(
            target, request, limits.engine, dtype, quantization=format_, tokens_per_block=blocks
        )
        stores = self.vision_engine == "TensorRT"
        inputs = MemoryInputs(target, request, limits, dtype, self.gpu, pools, cache, stores)
        return plan_memory(inputs)

    def late_problems(self, sizes: Sizes) -> Iterator[SpecError]:
        """Yield steps that hold no prompt, and a cache that leaves too little."""
        request, gpu, limits = sizes.request, fullest(sizes.memory), sizes.limits.engine
        if limits.max_num_tokens < limits.max_input_len:
            yield SpecError(
                "NumTokensBelowInputLen",
                f"{limits.max_num_tokens} is below the prompt's {limits.max_input_len}, "
                "and a prompt must fit into one step (chunked context is off): raise it",
                "spec.engine.maxNumTokens",
            )
        if request.kv_fraction is None:
            return
        available = gpu.gpu_memory_bytes - (gpu.total_bytes - gpu.kv_cache_bytes)
        late = gpu.vision_engine_bytes + gpu.vision_activation_bytes
        most = fraction_of(available, available + late)
        if request.kv_fraction > most > 0:
            yield SpecError(
                "KvFractionTooLarge",
                f"{request.kv_fraction} leaves too little for what is allocated after the "
                f"cache (the vision engine may load later): use at most {most}, or Auto",
                "spec.engine.kvCache.freeGpuMemoryFraction",
            )

    def fit(self, target: Target, sizes: Sizes) -> Fit:
        possible = (
            name
            for name in target.family.trtllm.quantizations
            if self.quantizes
            and target.facts.quantization is None
            and (name != "FP8" or capability(self.gpu) >= FP8_SINCE)
        )
        return suggested(verdict(sizes.memory), target, sizes.request, self, tuple(possible))

    def reasons(self, sizes: Sizes) -> list[Reason]:
        """Return the reasons of version, dtype, limits and pool."""
        pool = sizes.pools.cuda
        return [
            Reason(field="trtllmVersion", value=self.trtllm_version, reason=self.version_reason),
            sizes.dtype_reason,
            *sizes.limits.reasons,
            Reason(
                field="memoryPools.cuda",
                value=str(pool.bytes),
                reason=f"{pool.copies} x {pool.live_requests} live requests x "
                f"{pool.table_bytes_per_request} bytes x {pool.factor} + 1 MiB, at least 64 MiB; "
                f"{pool.bounded_by} keeps the number of requests"
                if pool.copies
                else "Triton's own: encoders give features out in host memory",
            ),
        ]

    def warnings(self, target: Target, sizes: Sizes, *own: PlanWarning) -> Iterator[PlanWarning]:
        """Yield notes of the family, what only this backend warns of, and what the sizes cost."""
        family, request = target.family, sizes.request
        of_engines = family.trtllm.notes if target.spec.engine.backend == "TensorRT" else ()
        for note in (*family.notes, *of_engines):
            yield PlanWarning(code="Family", message=note)
        yield from own
        yield from gpu_warnings(self.gpu, self.trtllm_version)
        if request.pipeline_parallel > 1:
            yield PlanWarning(
                code="PipelineParallel",
                message="upstream shows multimodal engines with tensor parallelism only: stages "
                "are planned by its converters' flags and have not been run",
            )
        if request.lora and family.kind is Kind.ENCODER_DECODER:
            yield PlanWarning(
                code="LoraPadding",
                message="engines with adapters keep their input padding, as upstream's guide "
                "builds BART; whether Triton batches their requests in flight has not been run",
            )
        held, batch = sizes.memory.full_length_sequences, sizes.limits.engine.max_batch_size
        if held < batch:
            yield PlanWarning(
                code="KvCacheHoldsFewer",
                message=f"if the vision engine loads first, the KV cache holds {held} full "
                f"sequences, and a batch has {batch}: long requests would wait",
            )
