"""Checkpoints that trtllm-serve loads itself: nothing is built."""

from dataclasses import dataclass, replace

from mm_api.documents.model_plan import MemoryPlan, PlanWarning, Reason
from mm_operator.plan.engine import checks
from mm_operator.plan.engine.backend import BuildParts, ServingParts, Sizes
from mm_operator.plan.engine.backends.on_gpu import OnGpu
from mm_operator.plan.engine.checks import Check
from mm_operator.plan.engine.container_memory import raised
from mm_operator.plan.engine.gpu_support import check_gpu
from mm_operator.plan.engine.limits import Limits
from mm_operator.plan.engine.pools import Pools, image_side
from mm_operator.plan.engine.request import PlanRequest, Target, request_of
from mm_operator.plan.engine.reuse_checks import check_reuse_of_images
from mm_operator.plan.engine.serve_checks import check_served_images, check_serving
from mm_operator.plan.engine.serve_command import serve
from mm_operator.plan.engine.serve_option_checks import check_options
from mm_operator.plan.engine.stored import check_stored_for_servers

_ESTIMATE = PlanWarning(
    code="PyTorchEstimate",
    message="memory is that of an engine: TensorRT-LLM on PyTorch reserves no prompt table, and "
    "sizes its cache by its own fraction",
)

_CHECKS: tuple[Check, ...] = (
    checks.check_family,
    check_serving,
    check_gpu,
    check_stored_for_servers,
    checks.check_quantization,
    checks.check_parallelism,
    check_served_images,
    checks.check_limits,
    check_reuse_of_images,
    check_options,
    checks.check_source,
)


_KEPT_PIXEL_BYTES = 128 * 10
"""Size of a pixel in the 128 images that trtllm-serve may keep in host memory: three channels, as
base64, and copies of both."""


def _kept_files(target: Target, limits: Limits) -> int:
    """Return what the largest images of a request take."""
    if target.facts.vision is None:
        return 0
    return (
        limits.engine.max_images_per_request
        * image_side(target.facts, target.family) ** 2
        * _KEPT_PIXEL_BYTES
    )


@dataclass(frozen=True, slots=True)
class PyTorch(OnGpu):
    """TensorRT-LLM on PyTorch."""

    checks = _CHECKS
    vision_engine = "Torch"  # trtllm-serve runs the checkpoint: nothing is made of it
    quantizes = False

    def request(self, target: Target) -> PlanRequest:
        """Return what the spec requests: trtllm-serve computes in the checkpoint's own type."""
        request, own = request_of(target.spec), target.facts.dtype
        if request.dtype == "Auto" and own in {"float16", "bfloat16"}:
            return replace(request, dtype=own)
        return request

    def dtype(self, target: Target, request: PlanRequest) -> tuple[str, Reason]:
        """Return the dtype; the checkpoint's own needs no other reason."""
        # Not super(): a dataclass with slots is another class than the one being defined.
        chosen, reason = OnGpu.dtype(self, target, request)
        if chosen == target.facts.dtype:
            reason = reason.model_copy(update={"reason": "the checkpoint's own"})
        return chosen, reason

    def memory(
        self, target: Target, request: PlanRequest, limits: Limits, dtype: str, pools: Pools
    ) -> MemoryPlan:
        memory = OnGpu.memory(self, target, request, limits, dtype, pools)
        read = len(memory.per_gpu) * target.facts.weight_bytes  # by every rank, mapped or copied
        host = raised(memory.host, loading_bytes=read, step_bytes=_kept_files(target, limits))
        return memory.model_copy(update={"host": host})

    def build_parts(self, target: Target, sizes: Sizes) -> BuildParts:  # noqa: ARG002
        """Return nothing: the checkpoint is staged as it is."""
        return BuildParts()

    def serving_parts(self, target: Target, sizes: Sizes) -> ServingParts:
        return ServingParts(
            trtllm_serve=serve(target, sizes, self.trtllm_version),
            warnings=tuple(self.warnings(target, sizes, _ESTIMATE)),
        )
