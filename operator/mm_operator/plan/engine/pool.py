"""Triton's pools and queues: how many requests hold an encoder output, and for how many bytes."""

from dataclasses import dataclass

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import PlannedLimits, PoolPlan, ServingLimits
from mm_api.families.family import Family, Kind
from mm_operator.errors import SpecError
from mm_operator.plan.engine.limits import Sized
from mm_operator.plan.engine.pools import (
    CUDA_MINIMUM_BYTES,
    CUDA_ROUNDING_BYTES,
    MIB,
    PINNED_DEFAULT_BYTES,
    Traffic,
    ceil_to,
    shm_bytes,
)
from mm_operator.plan.engine.request import Ask
from mm_operator.plan.engine.weights import DTYPE_BYTES

_MEL_BYTES = 2
_ENSEMBLE_COPIES, _BLS_COPIES = 1, 2


@dataclass(frozen=True, slots=True)
class Pools:
    """Pools of one replica and the limits they were computed for."""

    pool: PoolPlan
    gateway_concurrency: int
    engine_copies_bytes: int
    """The C++ backend copies each request's input into memory of its own (#pools)."""
    pinned_bytes: int
    shm_bytes: int


def output_bytes(facts: ModelFacts, family: Family, sized: Sized, dtype: str) -> int:
    """Return S: what one request holds on the GPU, each tensor rounded up to 512 (#pools)."""
    text, features = facts.text, sized.request_features
    if family.kind is Kind.ENCODER_DECODER:
        encoder = facts.encoder
        bins = encoder.mel_bins if encoder else None
        if facts.vision is not None:
            rows = sized.limits.max_images_per_request * sized.limits.features_per_image
            size = rows * text.hidden_size * DTYPE_BYTES[dtype]
            return ceil_to(size, CUDA_ROUNDING_BYTES)
        return ceil_to((bins or 0) * features * _MEL_BYTES, CUDA_ROUNDING_BYTES)
    table = ceil_to(features * text.hidden_size * DTYPE_BYTES[dtype], CUDA_ROUNDING_BYTES)
    if family.kind is Kind.PROMPT_TABLE:
        length = text.max_position_embeddings
    else:
        length = sized.limits.max_seq_len
    extra = family.extra_output_bytes(length, text.head_size, features) if features else 0
    return table + ceil_to(extra, CUDA_ROUNDING_BYTES)


def plan_pools(ask: Ask, facts: ModelFacts, family: Family, sized: Sized, dtype: str) -> Pools:
    """Return pools, queues and the gateway's cap.

    Raises:
        SpecError: nothing bounds the requests, or a pool that the spec names is too small.
    """
    limits = sized.limits
    batch = limits.max_batch_size
    waiting = min(ask.max_queue_size, batch)
    cap = (ask.max_concurrency or batch + waiting) if ask.gateway else 0
    queued = batch + ask.max_queue_size if ask.max_queue_size else 0
    if not cap and not queued:
        raise SpecError(
            "UnboundedPool",
            "without a gateway and with an endless queue nothing bounds the requests that hold an "
            "encoder output, so no CUDA pool is big enough: set it to 1 or more, or "
            "spec.gateway.enabled to true",
            "spec.runtime.maxQueueSize",
        )
    bounded_by = "GatewayConcurrency" if cap and (not queued or cap <= queued) else "ExecutorQueue"
    bound = min(filter(None, (cap, queued)))
    live = bound + batch
    single = output_bytes(facts, family, sized, dtype)
    copies = _BLS_COPIES if "whisper_bls" in family.serving.models else _ENSEMBLE_COPIES
    needed = ceil_to(int(copies * live * single * family.pool_factor), CUDA_ROUNDING_BYTES) + MIB
    needed = max(needed, CUDA_MINIMUM_BYTES)
    if ask.cuda_pool_bytes is not None and ask.cuda_pool_bytes < needed:
        raise SpecError(
            "PoolTooSmall",
            f"{ask.cuda_pool_bytes:,} bytes would fail requests: {live} live requests of "
            f"{single:,} bytes need {needed:,}; use Auto, or lower spec.runtime.maxConcurrency",
            "spec.runtime.memoryPools.cuda",
        )
    return Pools(
        pool=PoolPlan(
            table_bytes_per_request=single,
            copies=copies,
            live_requests=live,
            factor=family.pool_factor,
            bytes=ask.cuda_pool_bytes or needed,
            bounded_by=bounded_by,
        ),
        gateway_concurrency=cap,
        engine_copies_bytes=bound * single,
        pinned_bytes=PINNED_DEFAULT_BYTES
        if ask.pinned_pool_bytes is None
        else ask.pinned_pool_bytes,
        shm_bytes=shm_bytes(
            images=limits.max_images_per_request * tiles_per_picture(facts, family),
            image_size=picture_side(facts, family),
            output_bytes=single,
            traffic=Traffic(
                gateway_cap=bound,
                max_batch_size=batch,
                max_queue_size=ask.max_queue_size,
                triton_max_batch_size=batch,
                chains=ask.chains,
            ),
        ),
    )


def serving_limits(
    ask: Ask, limits: PlannedLimits, pools: Pools, template: dict[str, str]
) -> ServingLimits:
    """Return what keeps the number of requests at N, and Triton's template values."""
    return ServingLimits(
        gateway_concurrency=pools.gateway_concurrency,
        triton_queue_size=ask.max_queue_size,
        triton_max_batch_size=limits.max_batch_size,
        template=template,
    )


def picture_side(facts: ModelFacts, family: Family) -> int:
    """Return the side of the square that pixels of one picture, or tile, fill."""
    return 0 if facts.vision is None else family.pixels_side(facts.vision)


def tiles_per_picture(facts: ModelFacts, family: Family) -> int:
    """Return how many squares of pixels one picture becomes at the most."""
    vision = facts.vision
    if vision is None:
        return 0
    if family.kind is Kind.CROSS_ATTENTION:
        return vision.max_tiles or 1
    return family.tiles_per_image(vision)
