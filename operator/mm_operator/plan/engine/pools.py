"""Triton's memory pools and the shared memory of its Python backends, in bytes.

One encoder output stays resident from encoding to the end of generation. Measured on an H200: a
pool below about (requests in flight + 1) outputs fails requests, an empty one kills the server, and
the server warns once only. So the pool is computed for the requests that the gateway lets in.
"""

from dataclasses import dataclass

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import Bound, PoolPlan
from mm_api.documents.serving_plan import MemoryPools
from mm_api.dtypes import DTYPE_BYTES
from mm_api.families.family import Family, Kind
from mm_operator.errors import SpecError
from mm_operator.plan.engine.limits import Limits
from mm_operator.plan.engine.request import PlanRequest, Target
from mm_operator.plan.engine.units import CUDA_ROUNDING_BYTES, MIB, ceil_to

_MEL_BYTES = 2


def output_bytes(facts: ModelFacts, family: Family, limits: Limits, dtype: str) -> int:
    """Return S: what one request holds on the GPU, each tensor rounded up to 512 (#pools)."""
    text, features = facts.text, limits.request_features
    if family.kind is Kind.ENCODER_DECODER:
        encoder = facts.encoder
        bins = encoder.mel_bins if encoder else None
        if facts.vision is not None:
            rows = limits.engine.max_images_per_request * limits.features_per_image
            size = rows * text.hidden_size * DTYPE_BYTES[dtype]
            return ceil_to(size, CUDA_ROUNDING_BYTES)
        return ceil_to((bins or 0) * features * _MEL_BYTES, CUDA_ROUNDING_BYTES)
    table = ceil_to(features * facts.row_size * DTYPE_BYTES[dtype], CUDA_ROUNDING_BYTES)
    if family.kind is Kind.PROMPT_TABLE and family.has_engines:
        length = text.max_position_embeddings
    else:
        length = limits.engine.max_seq_len
    extra = family.layout.extra_output_bytes(length, text.head_size, features) if features else 0
    return table + ceil_to(extra, CUDA_ROUNDING_BYTES)


def image_side(facts: ModelFacts, family: Family) -> int:
    """Return the side of the square that pixels of one image, or tile, fill."""
    return 0 if facts.vision is None else family.layout.pixels_side(facts.vision)


def squares_of(facts: ModelFacts, family: Family, images: int, backend: str) -> int:
    """Return how many squares of pixels the images of a request become at the most."""
    vision = facts.vision
    if vision is None or not images:
        return 0
    if family.kind is Kind.CROSS_ATTENTION:
        return images * (vision.max_tiles or 1)
    return family.request_tiles(vision, images, backend)


CUDA_MINIMUM_BYTES = 64 * MIB
"""Triton's own default: never plan below it."""

PINNED_DEFAULT_BYTES = 256 * MIB
"""Triton's own default; outputs that miss the CUDA pool land here."""

ENSEMBLE_COPIES, BLS_COPIES = 1, 2
"""An ensemble keeps one copy of an output; `tensorrt_llm_bls` requests outputs in host memory, so
it keeps none in the pool. Upstream's BLS model for Whisper keeps two (#pools)."""

_SHM_STUBS = 3
"""Python models of one process, which has regions of its own."""

_SHM_STUB_BYTES = 16 * MIB
"""A stub starts with 1 MiB and grows with texts and tokens; it never shrinks."""

_SHM_MINIMUM_BYTES = 256 * MIB
"""Lets a client of Triton itself send a raw image of about 40 million pixels."""

_SHM_RANKS_BYTES = 1 << 30
"""For ranks that talk to each other: NCCL's buffers lie there where GPUs have no link of their own.
TensorRT-LLM and NCCL start containers with --shm-size=1g."""

_FLOAT32_BYTES = 4
_CHANNELS = 3


@dataclass(frozen=True, slots=True)
class Pools:
    """Pools of one replica and the limits they were computed for."""

    cuda: PoolPlan
    planned: MemoryPools
    gateway_concurrency: int
    """0: there is no gateway."""
    engine_copies_bytes: int
    """The C++ backend copies each request's input into memory of its own (#pools)."""


def plan_pools(
    request: PlanRequest, target: Target, limits: Limits, dtype: str, *, copies: int
) -> Pools:
    """Return pools and the gateway's cap. SpecError: a pool that the spec names is too small."""
    facts, family, batch = target.facts, target.family, limits.engine.max_batch_size
    waiting = min(request.max_queue_size, batch)
    cap = request.max_concurrency or batch + waiting
    bound, bounded_by = bound_of(cap, request.max_queue_size, batch)
    live = bound + batch
    single = output_bytes(facts, family, limits, dtype)
    needed = cuda_pool_bytes(copies * live, single, family.layout.pool_factor)
    if request.cuda_pool_bytes is not None and request.cuda_pool_bytes < needed:
        raise SpecError(
            "PoolTooSmall",
            f"{request.cuda_pool_bytes:,} bytes would fail requests: {live} live requests of "
            f"{single:,} bytes need {needed:,}; use Auto, or lower spec.runtime.maxConcurrency",
            "spec.runtime.memoryPools.cuda",
        )
    cuda = PoolPlan(
        table_bytes_per_request=single,
        copies=copies,
        live_requests=live,
        factor=family.layout.pool_factor,
        bytes=request.cuda_pool_bytes or needed,
        bounded_by=bounded_by,
    )
    pinned = request.pinned_pool_bytes
    return Pools(
        cuda=cuda,
        planned=MemoryPools(
            cuda_bytes=cuda.bytes,
            pinned_bytes=PINNED_DEFAULT_BYTES if pinned is None else pinned,
            shm_bytes=shm_bytes(
                images=squares_of(
                    facts, family, limits.engine.max_images_per_request, request.backend
                ),
                image_size=image_side(facts, family),
                output_bytes=single,
                live_requests=live,
                pipeline_processes=request.pipeline_processes,
                ranks=request.tensor_parallel * request.pipeline_parallel,
                preprocessing=request.preprocessing_instances,
            ),
        ),
        gateway_concurrency=cap,
        engine_copies_bytes=bound * single,
    )


def bound_of(gateway_cap: int, queue: int, batch: int) -> tuple[int, Bound]:
    """Return how many requests may be past the encoder, and what keeps them to that number.

    Of the gateway, the language model's queue (0: without bound) and its batch.
    """
    if not queue or gateway_cap <= batch + queue:
        return gateway_cap, "GatewayConcurrency"
    return batch + queue, "ExecutorQueue"


def cuda_pool_bytes(outputs: int, output_bytes: int, factor: float) -> int:
    """Return the CUDA pool: ceil512(outputs * S * f) + 1 MiB, never below 64 MiB."""
    resident = ceil_to(int(outputs * output_bytes * factor), CUDA_ROUNDING_BYTES)
    return max(resident + MIB, CUDA_MINIMUM_BYTES)


def larger_pool_bytes(present: int, pool: PoolPlan, *, queue: int, batch: int) -> int:
    """Return a CUDA pool that would do where one of `present` bytes was full.

    Clients that pass the gateway by are kept by Triton's own queue alone: where room for those is
    more than there is, it is that; else twice what there is, because no limit says more.
    """
    if not queue:
        return 2 * present
    inside = queue + 2 * batch
    needed = cuda_pool_bytes(pool.copies * inside, pool.table_bytes_per_request, pool.factor)
    return needed if needed > present else 2 * present


def shm_bytes(
    *,
    images: int,
    image_size: int,
    output_bytes: int,
    live_requests: int,
    pipeline_processes: int,
    ranks: int,
    preprocessing: int = 1,
) -> int:
    """Return the size limit of /dev/shm.

    Regions grow to their peak and stay there: per live request the pixels, raw (uint8) and
    normalised (counted as float32), in the regions of each process that may make them and of the
    model that reads them, and the encoder output.
    """
    pixels = images * image_size * image_size * _CHANNELS
    request = (preprocessing + 1) * pixels * (1 + _FLOAT32_BYTES) + output_bytes
    stubs = _SHM_STUBS + preprocessing + pipeline_processes
    needed = stubs * _SHM_STUB_BYTES + (live_requests + pipeline_processes) * request
    return max(ceil_to(needed, MIB), _SHM_MINIMUM_BYTES) + (ranks > 1) * _SHM_RANKS_BYTES
