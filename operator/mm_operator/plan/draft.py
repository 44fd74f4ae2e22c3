"""From facts and spec to the two documents: what is built, and how it is served."""

from dataclasses import dataclass

from mm_api.documents.build_plan import BuildPlan, EngineLimits, EngineSpec
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import EncoderMemory
from mm_api.documents.serving_plan import GatewayPlan, MemoryPools, ServingPlan
from mm_api.families.family import Family
from mm_api.v1alpha1 import MultimodalModelSpec, duration
from mm_api.v1alpha1.quantity import bytes_of
from mm_operator import names
from mm_operator.errors import SpecError
from mm_operator.model import Choice
from mm_operator.plan import memory
from mm_operator.plan.engine import adapters, encoders, pools
from mm_operator.plan.engine.family import served_family
from mm_operator.plan.engine.fingerprint import engine_fingerprint
from mm_operator.plan.engine.limits import Sized
from mm_operator.plan.engine.pool import output_bytes, picture_side, tiles_per_picture
from mm_operator.plan.limits import plan_limits
from mm_operator.plan.store import store_of


@dataclass(frozen=True, slots=True)
class Draft:
    """Everything that follows from facts and spec alone."""

    build_plan: BuildPlan
    serving_plan: ServingPlan
    engine_config: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class ReferenceDraft(Draft):
    """The same for the Reference engine, with its bytes of host memory."""

    footprint: memory.Footprint
    encoder: EncoderMemory | None
    """Of each encoder in a pod of its own."""

    output_bytes: int
    """What one request holds from encoding to its last token."""


def draft(
    *, model: str, spec: MultimodalModelSpec, facts: ModelFacts, builder_version: str
) -> ReferenceDraft:
    """Return the documents for one model on the Reference engine.

    Raises:
        SpecError: the spec contradicts the checkpoint, or the plan does not fit.
    """
    family = served_family(facts.family)
    encoders.check_vision(spec, facts)
    adapters.check_inspected(spec, facts)
    limits = plan_limits(spec, facts, family)
    dtype, dtype_choice = _dtype(spec, facts)
    engine = EngineSpec(
        source_digest=facts.source_digest,
        family=facts.family,
        backend=spec.engine.backend,
        dtype=dtype,
        limits=limits.engine,
        vision=limits.vision,
        builder_version=builder_version,
    )
    lora = adapters.planned_adapters(spec, facts) or None
    fingerprint = engine_fingerprint(engine, lora=lora)
    traffic, traffic_choice = _traffic(spec, limits.engine)
    planned_pools, pool_choices = _pools(
        spec=spec, facts=facts, family=family, dtype=dtype, sized=limits.sized, traffic=traffic
    )
    footprint = memory.footprint(
        facts=facts,
        dtype=dtype,
        limits=limits.engine,
        vision_batch=limits.vision.max_batch_size if limits.vision else 0,
        pools=planned_pools,
        feature_cache_bytes=encoders.server_cache_bytes(spec),
    )
    memory.check_fits(footprint, spec.runtime.resources.limits.get("memory"))
    encoder = encoders.encoder_memory(spec, vision_bytes=footprint.vision_bytes, context_bytes=None)
    encoders.check_fits(encoder)
    return ReferenceDraft(
        build_plan=BuildPlan(
            fingerprint=fingerprint,
            engine=engine,
            facts=facts,
            lora=lora,
            allow_pickle=spec.model.allow_pickle,
            trust_remote_code=spec.model.trust_remote_code,
        ),
        serving_plan=ServingPlan(
            model=model,
            fingerprint=fingerprint,
            backend=spec.engine.backend,
            pools=planned_pools,
            max_queue_size=spec.runtime.max_queue_size,
            accumulate_tokens=spec.runtime.accumulate_tokens,
            streaming=spec.runtime.streaming,
            bls_instances=pools.bls_instances(spec.runtime.bls_instances),
            feature_cache_bytes=bytes_of(spec.vision.feature_cache_bytes),
            encoders=encoders.encoder_plan(model, spec, planned_pools),
            gateway=gateway_plan(
                spec,
                concurrency=traffic.gateway_cap,
                images=limits.engine.max_images_per_request,
                video_frames=limits.video_frames,
            ),
        ),
        engine_config=engine_config(spec, fingerprint),
        footprint=footprint,
        encoder=encoder,
        output_bytes=output_bytes(facts, family, limits.sized, dtype),
        choices=(dtype_choice, *limits.choices, traffic_choice, *pool_choices),
    )


def engine_config(spec: MultimodalModelSpec, fingerprint: str) -> str:
    """Return the name of the ConfigMap of an engine in the store that the spec asks for."""
    store = store_of(spec)
    return names.engine_config(fingerprint, *store.key)


def _dtype(spec: MultimodalModelSpec, facts: ModelFacts) -> tuple[str, Choice]:
    asked = spec.engine.dtype
    chosen = facts.dtype if asked == "Auto" else asked
    if chosen not in memory.DTYPE_BYTES:
        raise SpecError(
            reason="NotSupported",
            path="spec.engine.dtype",
            message=f"the checkpoint is stored as {chosen}, which no engine computes in: set it to "
            f"one of {', '.join(memory.DTYPE_BYTES)}",
        )
    reason = "the checkpoint's own" if asked == "Auto" else "as written in spec.engine.dtype"
    return chosen, Choice("dtype", chosen, reason)


def _traffic(spec: MultimodalModelSpec, limits: EngineLimits) -> tuple[pools.Traffic, Choice]:
    asked = spec.runtime.max_concurrency
    waiting = min(spec.runtime.max_queue_size, limits.max_batch_size)
    cap = asked or limits.max_batch_size + waiting
    traffic = pools.Traffic(
        gateway_cap=cap,
        max_batch_size=limits.max_batch_size,
        max_queue_size=spec.runtime.max_queue_size,
        triton_max_batch_size=limits.max_batch_size,
        chains=pools.chains(spec.runtime.bls_instances, streaming=spec.runtime.streaming),
    )
    reason = (
        "as written in spec.runtime.maxConcurrency"
        if asked
        else f"{limits.max_batch_size} are decoded and {waiting} are ready to follow"
    )
    return traffic, Choice("maxConcurrency", str(cap), reason)


def _pools(
    *,
    spec: MultimodalModelSpec,
    facts: ModelFacts,
    family: Family,
    dtype: str,
    sized: Sized,
    traffic: pools.Traffic,
) -> tuple[MemoryPools, tuple[Choice, ...]]:
    output = output_bytes(facts, family, sized, dtype)
    needed = pools.cuda_pool_bytes(output_bytes=output, traffic=traffic, factor=family.pool_factor)
    asked = spec.runtime.memory_pools
    cuda = needed if asked.cuda == "Auto" else bytes_of(asked.cuda)
    if cuda < needed:
        raise SpecError(
            reason="InvalidSpec",
            path="spec.runtime.memoryPools.cuda",
            message=f"{cuda:,} bytes would fail requests: {traffic.live_requests} live requests of "
            f"{output:,} bytes need {needed:,}; use Auto, or lower spec.runtime.maxConcurrency",
        )
    pinned = pools.PINNED_DEFAULT_BYTES if asked.pinned == "Auto" else bytes_of(asked.pinned)
    shm = pools.shm_bytes(
        images=sized.limits.max_images_per_request * tiles_per_picture(facts, family),
        image_size=picture_side(facts, family),
        output_bytes=output,
        traffic=traffic,
    )
    return MemoryPools(cuda_bytes=cuda, pinned_bytes=pinned, shm_bytes=shm), (
        Choice(
            "memoryPools.cuda",
            str(cuda),
            f"{traffic.live_requests} live requests x {output} bytes x {family.pool_factor}, "
            "at least 64 MiB"
            if asked.cuda == "Auto"
            else "as written in spec.runtime.memoryPools.cuda",
        ),
        Choice(
            "memoryPools.pinned",
            str(pinned),
            "Triton's default"
            if asked.pinned == "Auto"
            else "as written in spec.runtime.memoryPools.pinned",
        ),
        Choice("shm", str(shm), "pixels and features of every live request, at least 256 MiB"),
    )


def gateway_plan(
    spec: MultimodalModelSpec, *, concurrency: int, images: int, video_frames: int = 0
) -> GatewayPlan:
    """Return the limits that the gateway enforces.

    Args:
        spec: the model's spec.
        concurrency: requests past the gateway, as the CUDA pool was computed for.
        images: in one request.
        video_frames: of one video; 0: none is taken.
    """
    gateway = spec.gateway
    return GatewayPlan(
        max_concurrency=concurrency,
        max_queue_size=gateway.max_queue_size,
        max_image_bytes=bytes_of(gateway.max_image_bytes),
        max_image_pixels=gateway.max_image_pixels,
        max_images_per_request=images,
        max_video_frames=video_frames,
        allowed_hosts=list(gateway.allowed_hosts),
        allow_private_networks=gateway.allow_private_networks,
        fetch_timeout_seconds=duration.parse(gateway.fetch_timeout).total_seconds(),
        request_timeout_seconds=duration.parse(gateway.request_timeout).total_seconds(),
    )
