"""vLLM's build for CPUs: the same command, with keys and values in host memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import ClassVar, Final

from mm_api.conditions import Reason as ConditionReason
from mm_api.documents.model_plan import Fit, MemoryPlan, PlanWarning, Reason
from mm_api.documents.trtllm_build import GpuModel
from mm_api.v1alpha1.quantity import number_of
from mm_operator.errors import SpecError
from mm_operator.plan.engine.backend import Sizes
from mm_operator.plan.engine.backends.reference import host_fit, own_dtype
from mm_operator.plan.engine.backends.vllm import Vllm
from mm_operator.plan.engine.backends.vllm_memory import plan_cpu_memory
from mm_operator.plan.engine.encoders import is_disaggregated
from mm_operator.plan.engine.limits import Limits
from mm_operator.plan.engine.pools import Pools
from mm_operator.plan.engine.request import PlanRequest, Target
from mm_operator.plan.engine.units import GIB

NO_GPU: Final = GpuModel(product="a processor", memory_bytes=1, compute_capability="0.0")
"""What needs a capability of a GPU is refused, as of one that is too old."""

_BLOCK_TOKENS = 128
"""Length of a block of keys and values (vllm/platforms/cpu.py)."""

_ESTIMATE: Final = PlanWarning(
    code="VllmEstimate",
    message="bytes beside keys and values are bounds that were compared with a tiny LLaVA alone "
    "(vLLM 0.32.0, two cores). vLLM's builds for CPUs compute with AVX512: set "
    "spec.runtime.nodeSelector where some nodes lack it",
)


@dataclass(frozen=True, slots=True)
class VllmOnCpu(Vllm):
    """A stock server without a GPU."""

    estimate: ClassVar[PlanWarning] = _ESTIMATE

    @property
    def gpu(self) -> GpuModel | None:
        return None

    def problems(self, target: Target, request: PlanRequest) -> Iterator[SpecError]:
        """Yield every hit of every check, and what is planned for GPUs alone."""
        yield from Vllm.problems(self, target, request)
        gpu = target.spec.runtime.gpu.model_copy(update={"slot": None})
        on_gpus = {
            "runtime.gpu": gpu != type(gpu)(),
            "engine.kvCache.freeGpuMemoryFraction": request.kv_fraction is not None,
            "vision.placement": is_disaggregated(target.spec),
        }
        if request.pipeline_parallel > 1 or request.tensor_parallel != request.nodes:
            yield SpecError(
                ConditionReason.NOT_SUPPORTED,
                f"on CPUs a pod is one rank, and vLLM {self.vllm_version} fails with stages of "
                "layers: set pipeline to 1, and tensor to the number of nodes",
                "spec.engine.parallelism",
            )
        for path, given in on_gpus.items():
            if given:
                yield SpecError(
                    ConditionReason.NOT_SUPPORTED,
                    f"the image's vLLM {self.vllm_version} is a build for CPUs "
                    f"({self.version_reason}), for which this is not planned: remove the field, or "
                    "use an image for GPUs",
                    f"spec.{path}",
                )

    def dtype(self, target: Target, request: PlanRequest) -> tuple[str, Reason]:
        """Return the spec's type, else the checkpoint's own: float32 is computed, too."""
        return own_dtype(target, request)

    def memory(
        self, target: Target, request: PlanRequest, limits: Limits, dtype: str, pools: Pools
    ) -> MemoryPlan:
        return plan_cpu_memory(self.terms(target, request, limits, dtype, _BLOCK_TOKENS), pools)

    def fit(self, target: Target, sizes: Sizes) -> Fit:
        return host_fit(target, sizes)

    def settings(self, target: Target, sizes: Sizes) -> dict[str, str]:
        """Return what vLLM's builds for CPUs read beside the command."""
        # Threads that are bound would share cores with those of another pod.
        found = {
            "VLLM_CPU_KVCACHE_SPACE": str(sizes.memory.kv_pool_bytes // GIB),
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        }
        cores = target.spec.runtime.resources.limits.get("cpu")
        if cores is not None:  # of more threads some always wait
            found["OMP_NUM_THREADS"] = str(max(1, ceil(number_of(cores))))
        return found

    def memory_reason(self, sizes: Sizes) -> tuple[str, object, str]:
        batch = sizes.limits.engine.max_batch_size
        return (
            "VLLM_CPU_KVCACHE_SPACE",
            sizes.memory.kv_pool_bytes // GIB,
            f"GiB; {batch} sequences of maxSeqLen, rounded up",
        )
