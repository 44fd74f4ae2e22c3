"""The Reference engine: no GPU, nothing of TensorRT-LLM; the plan is about host memory."""

from collections.abc import Iterator
from dataclasses import dataclass

from mm_api.backends import REFERENCE
from mm_api.conditions import Reason as ConditionReason
from mm_api.documents.model_facts import VisionFacts
from mm_api.documents.model_plan import Fit, HostMemory, MemoryPlan, PlanWarning, Reason
from mm_api.documents.trtllm_build import GpuModel
from mm_api.dtypes import DTYPE_BYTES
from mm_api.families import SERVED
from mm_api.families.family import Family, Kind
from mm_api.sentences import size
from mm_api.v1alpha1.quantity import bytes_of
from mm_api.v1alpha1.vision import VisionEngine
from mm_operator.errors import SpecError
from mm_operator.plan.engine.adapters import check_inspected, planned_adapters
from mm_operator.plan.engine.backend import BuildParts, ServingParts, Sizes
from mm_operator.plan.engine.encoders import encoder_memory
from mm_operator.plan.engine.host_memory import host_memory, kept_bytes, stored_scores
from mm_operator.plan.engine.limits import Limits
from mm_operator.plan.engine.pools import ENSEMBLE_COPIES, Pools
from mm_operator.plan.engine.request import PlanRequest, Target, request_of
from mm_operator.plan.engine.stored import unreadable

_FRAMES_BY_DEFAULT = 32
"""LLaVA-OneVision's papers evaluate videos with as many."""

_MANY_SCORES = 1 << 30
"""Bytes for which a warning is due: as much as the vision tower's own weights, or more."""

_LIMIT = "spec.runtime.resources.limits.memory"
_TERMS = {
    "weights_bytes": "weights",
    "vision_bytes": "vision",
    "prompt_table_bytes": "prompt table",
    "kv_cache_bytes": "KV cache",
    "feature_cache_bytes": "feature cache",
}
"""Field of `HostMemory` -> what people call it."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The engine that stands in where there is no GPU."""

    serving_image: str | None
    gpu: GpuModel | None = None
    trtllm_version: None = None
    vision_engine: VisionEngine | None = None

    def request(self, target: Target) -> PlanRequest:
        return request_of(target.spec)

    def problems(self, target: Target, request: PlanRequest) -> Iterator[SpecError]:
        """Yield what the engine does not do, and what contradicts the checkpoint."""
        yield from _check_served(target.family)
        yield from unreadable(target.family, target.facts)
        yield from _check_own_processor(target, on_gpu=self.gpu is not None)
        yield from check_inspected(request.lora, target.facts)
        yield from _check_tower(target.facts.vision, target.family)
        if (
            request.max_encoder_input_len is not None
            and target.family.kind is not Kind.ENCODER_DECODER
        ):
            yield SpecError(
                "NoEncoder",
                f"{target.family.name} has no encoder of text (mllama's limit follows from its "
                "tiles): remove the field",
                "spec.engine.maxEncoderInputLen",
            )
        yield from _check_reuse(target.family, request)

    def dtype(self, target: Target, request: PlanRequest) -> tuple[str, Reason]:
        return own_dtype(target, request)

    def pool_copies(self, target: Target, request: PlanRequest) -> int:  # noqa: ARG002
        """Return one: every model of the repository is ours."""
        return ENSEMBLE_COPIES

    def memory(
        self,
        target: Target,
        request: PlanRequest,  # noqa: ARG002  # nothing is split
        limits: Limits,
        dtype: str,
        pools: Pools,
    ) -> MemoryPlan:
        """Return the bytes of host memory."""
        text = target.facts.text
        host = host_memory(target, limits, dtype, pools.planned)
        per_token = 2 * text.layers * text.key_value_heads * text.head_size * DTYPE_BYTES[dtype]
        return MemoryPlan(
            per_gpu=[],
            host=host,
            encoder=encoder_memory(
                target.spec, pools.planned, vision_bytes=host.vision_bytes, context_bytes=None
            ),
            kv_bytes_per_token=per_token,
            cross_kv_bytes_per_token=0,
            kv_cache_free_gpu_memory_fraction=0,
            kv_pool_bytes=host.kv_cache_bytes,
            full_length_sequences=limits.engine.max_batch_size,
            pinned_pool_bytes=pools.planned.pinned_bytes,
            shm_bytes=pools.planned.shm_bytes,
        )

    def late_problems(self, sizes: Sizes) -> Iterator[SpecError]:  # noqa: ARG002  # nothing is late
        return iter(())

    def fit(self, target: Target, sizes: Sizes) -> Fit:
        return host_fit(target, sizes)

    def build_parts(self, target: Target, sizes: Sizes) -> BuildParts:  # noqa: ARG002  # the spec has them
        return BuildParts(lora=planned_adapters(target.spec, target.facts) or None)

    def serving_parts(self, target: Target, sizes: Sizes) -> ServingParts:
        kept = kept_bytes(target, sizes.limits, sizes.dtype)
        why = "as much as running requests have, in addition to it"
        reason = Reason(field="kvCache.reuse", value=str(kept), reason=why)
        return ServingParts(
            reuse_bytes=kept or None,
            video_frames=_video_frames(target, sizes),
            reasons=(reason,) if kept else (),
            warnings=_scores_warning(target) or _estimates(target),
        )

    def reasons(self, sizes: Sizes) -> list[Reason]:
        """Return the reasons of dtype, limits, requests and pools."""
        request, pools, batch = sizes.request, sizes.pools, sizes.limits.engine.max_batch_size
        waiting = min(request.max_queue_size, batch)
        values = (
            (
                "maxConcurrency",
                pools.gateway_concurrency,
                "as written in spec.runtime.maxConcurrency"
                if request.max_concurrency
                else f"{batch} are decoded and {waiting} are ready to follow",
            ),
            (
                "memoryPools.cuda",
                pools.planned.cuda_bytes,
                f"{pools.cuda.live_requests} live requests x {pools.cuda.table_bytes_per_request} "
                f"bytes x {pools.cuda.factor}, at least 64 MiB"
                if request.cuda_pool_bytes is None
                else "as written in spec.runtime.memoryPools.cuda",
            ),
            (
                "memoryPools.pinned",
                pools.planned.pinned_bytes,
                "Triton's default"
                if request.pinned_pool_bytes is None
                else "as written in spec.runtime.memoryPools.pinned",
            ),
            (
                "shm",
                pools.planned.shm_bytes,
                "pixels and features of every live request, at least 256 MiB",
            ),
        )
        chosen = (Reason(field=name, value=str(value), reason=why) for name, value, why in values)
        return [sizes.dtype_reason, *sizes.limits.reasons, *chosen]


def own_dtype(target: Target, request: PlanRequest) -> tuple[str, Reason]:
    """Return what a processor computes in: the checkpoint's own unless the spec names one."""
    requested, own = request.dtype, target.facts.dtype
    chosen = own if requested == "Auto" else requested
    if chosen not in DTYPE_BYTES:
        raise SpecError(
            ConditionReason.NOT_SUPPORTED,
            f"the checkpoint is stored as {chosen}, which no engine computes in: set it to "
            f"one of {', '.join(DTYPE_BYTES)}",
            "spec.engine.dtype",
        )
    reason = "the checkpoint's own" if requested == "Auto" else "as written in spec.engine.dtype"
    return chosen, Reason(field="dtype", value=chosen, reason=reason)


def host_fit(target: Target, sizes: Sizes) -> Fit:
    """Return whether the terms are below the memory limit of the spec."""
    host = sizes.memory.host
    terms = {name: getattr(host, field) for field, name in _TERMS.items()}
    short = 0 if host.limit_bytes is None else max(0, host.total_bytes - host.limit_bytes)
    return Fit(
        verdict="DoesNotFit" if short else "Fits",
        short_bytes=short,
        largest_term=max(terms, key=lambda name: terms[name]),
        message=_too_little(target, host)
        if short
        else f"{size(host.total_bytes)} of host memory are needed",
    )


def _check_reuse(family: Family, request: PlanRequest) -> Iterator[SpecError]:
    if request.reuse and not family.has_tower:
        yield SpecError(
            ConditionReason.NOT_SUPPORTED,
            f"models of family {family.name} compute with caches of their own class, of which "
            "nothing is kept: set engine.kvCache.reuse to false",
            "spec.engine.kvCache.reuse",
        )
    elif request.reuse and family.kind is not Kind.PROMPT_TABLE:
        yield SpecError(
            ConditionReason.NOT_SUPPORTED,
            f"{family.name} reads images, audio or text by cross attention, and what its decoder "
            "keeps of one request is no other's: set engine.kvCache.reuse to false",
            "spec.engine.kvCache.reuse",
        )


def _check_tower(vision: VisionFacts | None, family: Family) -> Iterator[SpecError]:
    if vision is None or not family.layout.fixed_features:
        return
    expected = family.layout.features_per_image(vision)
    if vision.features_per_image != expected:
        yield SpecError(
            ConditionReason.NOT_SUPPORTED,
            f"the checkpoint makes {vision.features_per_image} features of an image, but "
            f"family {family.name} makes {expected} of {vision.image_size} pixels in patches of "
            f"{vision.patch_size}: its vision tower is not the family's",
        )


def _scores_warning(target: Target) -> tuple[PlanWarning, ...]:
    scores = stored_scores(target)
    if scores < _MANY_SCORES:
        return ()
    message = (
        f"spec.vision.engine: ONNXRuntime stores {size(scores)} of attention scores of the "
        "largest image. Set it to Torch, which stores none"
    )
    return (PlanWarning(code="VisionScores", message=message),)


def _too_little(target: Target, host: HostMemory) -> str:
    """Return by how much the memory limit of the spec is too low, and what to change."""
    limit = target.spec.runtime.resources.limits["memory"]
    *terms, last = (f"{name} {size(getattr(host, field))}" for field, name in _TERMS.items())
    return (
        f"{_LIMIT}: {limit} is too little: {', '.join(terms)} and {last} are "
        f"{size(host.total_bytes)} together; raise the limit, or lower spec.engine.maxBatchSize, "
        f"spec.engine.maxSeqLen or spec.vision.featureCacheBytes{_without_scores(target)}"
    )


def _without_scores(target: Target) -> str:
    """Return what to change where the engine stores scores and another one stores none."""
    scores = stored_scores(target)
    if not scores:
        return ""
    return (
        f"; of vision, {size(scores)} are attention scores of one image, which "
        "spec.vision.engine: Torch does not store"
    )


def _video_frames(target: Target, sizes: Sizes) -> int:
    """Return the frames of a video: as written, else what a request's images leave room for."""
    vision, features, limits = (
        target.facts.vision,
        target.family.layout.video_features,
        sizes.limits,
    )
    if vision is None or features is None or not limits.vision_batch:
        return 0
    if sizes.request.max_video_frames is not None:
        return sizes.request.max_video_frames
    fit = 0
    while fit < _FRAMES_BY_DEFAULT and features(vision, fit + 1) <= limits.request_features:
        fit += 1
    return fit


def _check_own_processor(target: Target, *, on_gpu: bool) -> Iterator[SpecError]:
    """Yield an error for each field that would change nothing, and for a GPU."""
    if target.family.has_tower:
        return
    vision, gpu = target.spec.vision, target.spec.runtime.gpu.count
    unread = {
        "spec.vision.engine": (vision.engine != "ONNXRuntime", "remove the field"),
        "spec.vision.maxBatchSize": (vision.max_batch_size is not None, "remove the field"),
        "spec.vision.featureCacheBytes": (bytes_of(vision.feature_cache_bytes) > 0, "set it to 0"),
        "spec.vision.placement": (vision.placement == "Disaggregated", "set it to Colocated"),
        "spec.runtime.gpu.count": (on_gpu or gpu > 0, "set it to 0"),
    }
    for path, (requested, advice) in unread.items():
        if requested:
            yield SpecError(
                ConditionReason.NOT_SUPPORTED,
                f"family {target.family.name} runs the checkpoint's own class on the processor, "
                f"images included: {advice}",
                path,
            )


def _estimates(target: Target) -> tuple[PlanWarning, ...]:
    """Return the warning that figures of such a checkpoint are estimates."""
    vision = target.facts.vision
    if vision is None or target.family.has_tower or target.family.layout.rows_of_image is not None:
        return ()
    message = (
        f"no record describes {target.facts.architecture}: that an image becomes "
        f"{vision.features_per_image} tokens, and what its tower takes, are estimates from "
        "config.json. Requests are decoded one after another; prompts beyond maxInputLen are "
        "refused when their tokens are known"
    )
    return (PlanWarning(code="Estimates", message=message),)


def _check_served(family: Family) -> Iterator[SpecError]:
    """Yield an error for a family that the Reference engine does not compute."""
    if family.name not in SERVED:
        yield SpecError(
            "BackendFamily",
            f"backend {REFERENCE.name} does not compute {family.name}: set it to "
            f"{' or '.join(reversed(family.backends))}",
            "spec.engine.backend",
        )
