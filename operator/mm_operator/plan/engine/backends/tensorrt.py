"""Engines that trtllm-build makes, served by Triton."""

from dataclasses import dataclass, replace

from mm_api.documents.model_plan import PlanWarning, Reason
from mm_api.documents.serving_plan import GpuSharing, KvCachePlan
from mm_api.documents.trtllm_build import TrtllmBuild
from mm_api.trtllm_layout import reads_gpu_tensors
from mm_api.v1alpha1.vision import VisionSpec
from mm_operator.plan.engine import build_checks, checks, commands
from mm_operator.plan.engine.adapters import planned_adapters
from mm_operator.plan.engine.backend import BuildParts, ServingParts, Sizes
from mm_operator.plan.engine.backends.on_gpu import OnGpu
from mm_operator.plan.engine.checks import Check
from mm_operator.plan.engine.encoder_memory import is_one_sequence
from mm_operator.plan.engine.encoders import gpu_sharing
from mm_operator.plan.engine.gpu_support import check_gpu
from mm_operator.plan.engine.request import PlanRequest, Target, request_of
from mm_operator.plan.engine.reuse_checks import check_reuse
from mm_operator.plan.engine.serve_command import tokenizer_info
from mm_operator.plan.engine.stored import check_stored_for_engines
from mm_operator.plan.engine.tables import table, version_of

_DEPRECATED_SINCE = "1.2.0"

_CHECKS: tuple[Check, ...] = (
    checks.check_family,
    build_checks.check_engines,
    build_checks.check_version,
    check_gpu,
    check_stored_for_engines,
    checks.check_quantization,
    checks.check_parallelism,
    checks.check_images,
    checks.check_videos,
    checks.check_limits,
    build_checks.check_arguments,
    build_checks.check_chunked_context,
    build_checks.check_plugins,
    checks.check_lora,
    check_reuse,
    checks.check_source,
)


@dataclass(frozen=True, slots=True)
class TensorRT(OnGpu):
    """TensorRT-LLM's engines."""

    checks = _CHECKS
    vision_engine = "TensorRT"
    quantizes = True

    def request(self, target: Target) -> PlanRequest:
        """Return what the spec requests, with features on the GPU where the backend reads them.

        With a pinned pool a full CUDA pool would give out features that were never copied, so they
        leave in host memory. Images of one sequence run one by one: scores grow with its square.
        """
        request = request_of(target.spec)
        if request.pinned_pool_bytes is None and self._takes_features(target, request):
            request = replace(request, pinned_pool_bytes=0)
        if request.vision_max_batch_size is None and is_one_sequence(target.facts, target.family):
            request = replace(request, vision_max_batch_size=1)
        return request

    def pool_copies(self, target: Target, request: PlanRequest) -> int:
        takes = self._takes_features(target, request) and request.pinned_pool_bytes == 0
        if target.facts.vision is not None and not takes:
            return 0
        return OnGpu.pool_copies(self, target, request)

    def _takes_features(self, target: Target, request: PlanRequest) -> bool:
        ranks = request.tensor_parallel * request.pipeline_parallel
        return target.facts.vision is not None and reads_gpu_tensors(self.trtllm_version, ranks)

    def reasons(self, sizes: Sizes) -> list[Reason]:
        pinned = sizes.pools.planned.pinned_bytes
        why = "Triton's default, or as written in spec.runtime.memoryPools.pinned"
        why = why if pinned else "none: features travel in the CUDA pool"
        reason = Reason(field="memoryPools.pinned", value=str(pinned), reason=why)
        return [*OnGpu.reasons(self, sizes), reason]

    def build_parts(self, target: Target, sizes: Sizes) -> BuildParts:
        """Return the commands with what they are bound to."""
        facts, family, version = target.facts, target.family, self.trtllm_version
        request = sizes.request
        return BuildParts(
            trtllm=TrtllmBuild(
                version=version,
                tensor_parallel=request.tensor_parallel,
                pipeline_parallel=request.pipeline_parallel,
                gpu=self.gpu,
                convert=commands.convert(request, facts, family, sizes.dtype, version),
                engines=commands.engines(
                    request, family, sizes.limits, sizes.dtype, version, lora=facts.lora
                ),
                lora=planned_adapters(target.spec, facts),
                tokenizer_info=tokenizer_info(request, facts, family, version),
            )
        )

    def serving_parts(self, target: Target, sizes: Sizes) -> ServingParts:
        """Return how caches and processes share the GPU."""
        encodes = target.facts.vision is not None and sizes.limits.vision_batch
        sharing = gpu_sharing(target.spec.vision) if encodes else None
        return ServingParts(
            kv_cache=KvCachePlan(
                free_gpu_memory_fraction=sizes.memory.kv_cache_free_gpu_memory_fraction,
                cross_fraction=sizes.memory.cross_kv_cache_fraction,
                reuse=sizes.request.reuse or None,
            ),
            sharing=sharing,
            reasons=_share_reasons(target.spec.vision, sharing),
            warnings=tuple(self.warnings(target, sizes, *self._deprecation())),
        )

    def _deprecation(self) -> tuple[PlanWarning, ...]:
        if version_of(self.trtllm_version) < version_of(_DEPRECATED_SINCE):
            return ()
        message = (
            f"TensorRT-LLM {self.trtllm_version} prints deprecation warnings for engines; "
            f"{table('images')['engines']['last']} is the last with them"
        )
        return (PlanWarning(code="Deprecated", message=message),)


def _share_reasons(vision: VisionSpec, sharing: GpuSharing | None) -> tuple[Reason, ...]:
    if sharing is None or sharing.mode != "MPS":
        return ()
    why = "as written" if vision.thread_percentage else "the smallest that was measured"
    percent = str(sharing.thread_percentage)
    return (Reason(field="vision.threadPercentage", value=percent, reason=why),)
