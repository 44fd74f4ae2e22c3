"""Vision encoders in pods of their own: what servers and encoders know, and their bytes.

A server keeps its own encoder for the time when no other one answers, so its memory is that of
`Colocated` less the feature cache, which goes to where images are encoded by plan.
"""

from collections.abc import Iterator
from hashlib import sha256

from mm_api.conditions import Reason
from mm_api.contract import GRPC_PORT
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import EncoderMemory
from mm_api.documents.serving_plan import EncoderPlan, GpuSharing, MemoryPools
from mm_api.sentences import size
from mm_api.v1alpha1 import MultimodalModelSpec, VisionSpec
from mm_api.v1alpha1.quantity import bytes_of
from mm_operator import names
from mm_operator.errors import SpecError
from mm_operator.plan.engine.container_memory import (
    CUDA_PROCESS_BYTES,
    ENCODER_PROCESS_BYTES,
    PROCESS_BYTES,
    memory_limit,
)
from mm_operator.plan.engine.pools import CUDA_MINIMUM_BYTES
from mm_operator.plan.engine.tables import gpu_of

LEAST_PERCENT = 25
"""With 25 a token takes 1.2 to 1.4 times as long while images are encoded without pause, with 50 up
to 1.5 times; below, nothing was measured (bench/sharing: H100)."""


def gpu_sharing(vision: VisionSpec) -> GpuSharing:
    if vision.sharing == "TimeSlicing":
        return GpuSharing(mode="TimeSlicing", thread_percentage=LEAST_PERCENT)
    return GpuSharing(mode="MPS", thread_percentage=vision.thread_percentage or LEAST_PERCENT)


TIMEOUT_SECONDS = 10.0
"""An image of the largest profile takes a GPU well below a second, queue included; the Reference
engine may need seconds on a busy core. After it the server begins to encode, so it counts twice."""


def is_disaggregated(spec: MultimodalModelSpec) -> bool:
    return spec.vision.placement == "Disaggregated"


def encodes_on_processor(spec: MultimodalModelSpec) -> bool:
    """Return whether encoders in pods of their own have no GPU where servers have one."""
    return spec.vision.gpu is not None and spec.vision.gpu.count == 0


def check_vision(spec: MultimodalModelSpec, facts: ModelFacts) -> Iterator[SpecError]:
    """Yield errors for fields about images where the checkpoint takes none."""
    if facts.vision is not None:
        return
    if is_disaggregated(spec):
        yield SpecError(
            reason=Reason.NOT_SUPPORTED,
            path="spec.vision.placement",
            message=f"family {facts.family} takes no images, so there is no encoder to give pods "
            "of its own: set it to Colocated",
        )


def server_cache_bytes(spec: MultimodalModelSpec) -> int:
    return 0 if is_disaggregated(spec) else bytes_of(spec.vision.feature_cache_bytes)


def encoder_plan(
    model: str, spec: MultimodalModelSpec, pools: MemoryPools, uid: str
) -> EncoderPlan | None:
    """Return what both kinds of pods share; None when servers encode themselves.

    The key follows from the uid of the model, 122 random bits that only who may read the model's
    objects knows: the same for every revision, so that servers and encoders of two of them
    understand each other, and no Secret, which the operator may not write.

    `pools`: of the language model's pod, whose live requests an encoder may hold all at once.
    `uid`: of the model; empty: none is known, and there is no key.
    """
    if not is_disaggregated(spec):
        return None
    return EncoderPlan(
        addresses=[f"{names.encoders(model)}:{GRPC_PORT}"],
        timeout_seconds=TIMEOUT_SECONDS,
        # Features leave as host memory, so nothing of them lies in the CUDA pool.
        pools=pools.model_copy(update={"cuda_bytes": CUDA_MINIMUM_BYTES}),
        key=sha256(f"encoders/{uid}".encode()).hexdigest() if uid else "",
    )


def encoder_process_bytes(spec: MultimodalModelSpec, *, on_gpu: bool) -> int:
    """Return what the processes of an encoder's pod take beside a CUDA context."""
    small = spec.vision.engine == "ONNXRuntime" and not on_gpu
    return ENCODER_PROCESS_BYTES if small else PROCESS_BYTES


def encoder_memory(
    spec: MultimodalModelSpec,
    pools: MemoryPools,
    *,
    vision_bytes: int,
    context_bytes: int | None,
    process_bytes: int = CUDA_PROCESS_BYTES,
) -> EncoderMemory | None:
    """Return the bytes of an encoder's pod, None when there is none.

    `context_bytes`: of the CUDA context; None without a GPU, where there is no CUDA pool either.
    `process_bytes`: of the host, for each process with a CUDA context.
    """
    if not is_disaggregated(spec):
        return None
    cache = bytes_of(spec.vision.feature_cache_bytes)
    pool = 0 if context_bytes is None else CUDA_MINIMUM_BYTES
    on_gpu = context_bytes is not None
    needed = vision_bytes + cache + encoder_process_bytes(spec, on_gpu=on_gpu)
    # Its server and its one model have a context, and the engine is read on its way to the GPU.
    needed += vision_bytes + 2 * process_bytes if on_gpu else 0
    return EncoderMemory(
        vision_bytes=vision_bytes,
        feature_cache_bytes=cache,
        cuda_pool_bytes=pool,
        context_bytes=context_bytes,
        # The cache lies in host memory, beside what is on the GPU.
        total_bytes=vision_bytes + pool + (context_bytes or 0) + (0 if on_gpu else cache),
        planned_limit_bytes=memory_limit(needed, pools),
        limit_bytes=spec.vision.resources.memory_limit,
    )


def check_encoder(planned: EncoderMemory | None, vision: VisionSpec) -> Iterator[SpecError]:
    """Yield an error for an encoder that is above its memory limit, or the memory of its own GPU.

    The language model's GPU holds the same terms and more.
    """
    if planned is not None and planned.context_bytes is not None:
        yield from _check_product(planned, vision.gpu.product if vision.gpu else None)
        return
    if planned is None or planned.limit_bytes is None:
        return
    if planned.total_bytes > planned.limit_bytes:
        yield SpecError(
            reason=Reason.INVALID_SPEC,
            path="spec.vision.resources.limits.memory",
            message=f"{size(planned.limit_bytes)} are too little: vision "
            f"{size(planned.vision_bytes)} and feature cache "
            f"{size(planned.feature_cache_bytes)} are {size(planned.total_bytes)} together; raise "
            "the limit, or lower "
            "spec.vision.featureCacheBytes",
        )


def _check_product(planned: EncoderMemory, product: str | None) -> Iterator[SpecError]:
    try:
        memory = gpu_of(product).memory_bytes if product else planned.total_bytes
    except SpecError:  # not in the table: its memory is not known
        return
    if planned.total_bytes > memory:
        yield SpecError(
            reason=Reason.INVALID_SPEC,
            path="spec.vision.gpu.product",
            message=f"an encoder takes {planned.total_bytes:,} bytes, and {product} has "
            f"{memory:,}: use a larger GPU, or lower spec.vision.maxBatchSize",
        )
