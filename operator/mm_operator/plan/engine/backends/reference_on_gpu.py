"""The Reference engine on one GPU: the same engine as on the processor, with CUDA as its device."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mm_api.conditions import Reason as ConditionReason
from mm_api.documents.model_plan import Fit, MemoryPlan, PlanWarning, Reason
from mm_api.documents.serving_plan import GpuSharing
from mm_api.documents.trtllm_build import GpuModel
from mm_operator.errors import SpecError
from mm_operator.plan.engine.backend import ServingParts, Sizes
from mm_operator.plan.engine.backends.reference import Reference, host_fit
from mm_operator.plan.engine.encoders import gpu_sharing
from mm_operator.plan.engine.limits import Limits
from mm_operator.plan.engine.pools import Pools
from mm_operator.plan.engine.reference_memory import (
    ReferenceMemoryInputs,
    computes_on_gpu,
    plan_reference_memory,
)
from mm_operator.plan.engine.request import PlanRequest, Target
from mm_operator.plan.engine.suggestions import suggested, verdict

_NO_PINNED_POOL = "a full CUDA pool would give out features that were never copied"


@dataclass(frozen=True, slots=True)
class ReferenceOnGpu(Reference):
    """The Reference engine where the spec names a GPU."""

    gpu: GpuModel

    def request(self, target: Target) -> PlanRequest:
        """Return what the spec requests, without a pinned pool."""
        request = Reference.request(self, target)
        if request.pinned_pool_bytes is None:
            return replace(request, pinned_pool_bytes=0)
        return request

    def problems(self, target: Target, request: PlanRequest) -> Iterator[SpecError]:
        """Yield what the engine does not do, on one GPU or at all."""
        yield from Reference.problems(self, target, request)
        if request.gpu_count > 1 or request.tensor_parallel * request.pipeline_parallel > 1:
            yield SpecError(
                ConditionReason.NOT_SUPPORTED,
                f"{request.gpu_count} GPUs, and the Reference engine computes on one: set it to 1",
                "spec.runtime.gpu.count",
            )
        if request.pinned_pool_bytes:
            yield SpecError(
                ConditionReason.NOT_SUPPORTED,
                f"{_NO_PINNED_POOL} if there were a pinned pool: set it to Auto or 0",
                "spec.runtime.memoryPools.pinned",
            )
        yield from _check_sharing(target)
        own = target.spec.vision.gpu
        if own is not None and bool(own.count) != computes_on_gpu(target):
            engine = "Torch" if own.count else "ONNXRuntime"
            yield SpecError(
                ConditionReason.NOT_SUPPORTED,
                "with backend Reference servers encode, too, and vision.engine says where: set it "
                f"to {engine}, or remove the field",
                "spec.vision.gpu.count",
            )

    def memory(
        self,
        target: Target,
        request: PlanRequest,  # noqa: ARG002  # nothing is split
        limits: Limits,
        dtype: str,
        pools: Pools,
    ) -> MemoryPlan:
        terms = ReferenceMemoryInputs(target, limits, dtype, self.gpu, pools, _sharing(target))
        return plan_reference_memory(terms)

    def fit(self, target: Target, sizes: Sizes) -> Fit:
        """Return whether the GPU holds its terms, and the host the weights as they are read."""
        found, host = verdict(sizes.memory), host_fit(target, sizes)
        if host.short_bytes and not found.short_bytes:
            return host
        return suggested(found, target, sizes.request, self)

    def serving_parts(self, target: Target, sizes: Sizes) -> ServingParts:
        """Return the frames of a video, the device, and how processes share it."""
        parts = Reference.serving_parts(self, target, sizes)
        warnings: tuple[PlanWarning, ...] = ()
        if target.facts.vision is not None and not computes_on_gpu(target):
            message = (
                "vision.engine ONNXRuntime computes on the processor: images are encoded there, "
                "and their features go to the GPU. Set vision.engine to Torch to encode on the GPU"
            )
            warnings = (PlanWarning(code="VisionOnCpu", message=message),)
        return replace(parts, device="CUDA", sharing=_sharing(target), warnings=warnings)

    def reasons(self, sizes: Sizes) -> list[Reason]:
        """Return the reasons; there is no pinned pool for one of its own."""
        why = f"none: with one, {_NO_PINNED_POOL}"
        return [
            one.model_copy(update={"reason": why}) if one.field == "memoryPools.pinned" else one
            for one in Reference.reasons(self, sizes)
        ]


def _sharing(target: Target) -> GpuSharing | None:
    return gpu_sharing(target.spec.vision) if computes_on_gpu(target) else None


def _check_sharing(target: Target) -> Iterator[SpecError]:
    """Yield errors for a share of the GPU where the encoder does not compute on it."""
    vision = target.spec.vision
    written = {
        "sharing": vision.sharing != "Auto",
        "threadPercentage": vision.thread_percentage is not None,
    }
    if target.facts.vision is None or computes_on_gpu(target):
        return
    for name, given in written.items():
        if given:
            yield SpecError(
                ConditionReason.NOT_SUPPORTED,
                "vision.engine ONNXRuntime computes on the processor and shares no GPU: set "
                "vision.engine to Torch, or remove the field",
                f"spec.vision.{name}",
            )
