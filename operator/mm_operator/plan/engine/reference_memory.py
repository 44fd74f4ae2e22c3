"""Bytes on the GPU of one replica of the Reference engine, term by term.

Torch keeps what it has once taken from the driver, so peaks are what counts: each process is
planned at its fullest moment.
"""

from dataclasses import dataclass

from mm_api.captured_passes import captured_passes
from mm_api.documents.build_plan import EngineLimits
from mm_api.documents.model_plan import EncoderMemory, GpuMemory, HostMemory, MemoryPlan
from mm_api.documents.serving_plan import GpuSharing
from mm_api.documents.trtllm_build import GpuModel
from mm_api.dtypes import DTYPE_BYTES
from mm_api.families.family import Kind
from mm_api.v1alpha1.vision import TENSORRT
from mm_api.vision_runs import heads_of
from mm_operator.plan.engine.container_memory import CUDA_PROCESS_BYTES, planned_host
from mm_operator.plan.engine.container_memory import PROCESS_BYTES as HOST_PROCESS_BYTES
from mm_operator.plan.engine.encoder_memory import vision_parameters
from mm_operator.plan.engine.encoders import (
    encoder_memory,
    encodes_on_processor,
    server_cache_bytes,
)
from mm_operator.plan.engine.host_memory import (
    ACTIVATION_COPIES,
    VALUE_BYTES,
    adapter_bytes,
    cache_bytes,
    computed_bytes,
    host_vision_bytes,
    kept_bytes,
)
from mm_operator.plan.engine.limits import Limits
from mm_operator.plan.engine.memory import PROCESS_BYTES
from mm_operator.plan.engine.pools import Pools
from mm_operator.plan.engine.request import Target
from mm_operator.plan.engine.weights import text_parameters

SERVER_BYTES = 528 << 20
"""CUDA context of a process that computes nothing: tritonserver, which holds the pool, and an
encoder that only uploads. Measured on an H100: 516 to 527 MiB."""

MPS_BYTES = 72 << 20
"""Memory of MPS's server: 66 MiB."""

SHARE_BYTES = {25: 288 << 20}
"""Memory of an encoder with so many percent of the GPU's threads, under MPS: 282 MiB. With other
shares it was not measured, and is planned as without."""

_EXPORTED_BYTES, _HALF_BYTES = 4, 2
"""The vision half is exported in float32. On a GPU it computes in float16 beside a language model
of 16 bits, where its images have one size (`mm_runtime.serving.encode.vision.torch_runner`) or
TensorRT has built it."""

_GRAPHED_IMAGES = 8
"""Images of the largest pass that is a CUDA graph, whose activations keep memory of their own."""

_SCORE_COPIES = 5
"""Attention of the export stores its scores, their softmax and temporaries of both: with 16 images
of CLIP ViT-L/14-336, torch had taken 1,368 to 1,758 MiB of an H100, where this makes 1,914."""

_WORKSPACES_BYTES = 128 << 20
"""Workspaces of cuBLAS for the stream that steps are captured on and the one that others run on, 32
MiB each, and what torch holds and does not use."""

_GRAPH_LAYER_BYTES = 640 << 10
"""Memory of the driver for each layer of a captured step. With the workspaces these took 131 MiB
for 4 layers in 12 graphs and 314 for 24 in 15 (H100), where this makes 158 and 353."""

_ENCODER_REST_BYTES = 384 << 20
"""What an encoder in a pod of its own held on an H200 beyond every other term, rounded up: 305 MiB
(`bench/gpu/two_pods.py`, shape 7b). In one pod the language model's terms are as much too large."""

_SPLIT_ROWS = 132 * 64
"""Rows of a part times splits of their keys, whose float32 sums are kept
(`mm_runtime.reference_engine.fused.attention`)."""


@dataclass(frozen=True, slots=True)
class ReferenceMemoryInputs:
    """What goes into the memory of the GPU."""

    target: Target
    limits: Limits
    dtype: str
    gpu: GpuModel
    pools: Pools
    sharing: GpuSharing | None
    """None: the encoder does not compute on this GPU."""


def plan_reference_memory(terms: ReferenceMemoryInputs) -> MemoryPlan:
    """Return every term on the GPU, and what the host holds beside it."""
    target, engine = terms.target, terms.limits.engine
    text, size = target.facts.text, DTYPE_BYTES[terms.dtype]
    gpu = _on_gpu(terms)
    return MemoryPlan(
        per_gpu=[gpu],
        host=_on_host(terms),
        encoder=encoder_of(target, terms.limits, terms.dtype, terms.pools),
        kv_bytes_per_token=2 * text.layers * text.key_value_heads * text.head_size * size,
        cross_kv_bytes_per_token=0,
        kv_cache_free_gpu_memory_fraction=0,
        kv_pool_bytes=gpu.kv_cache_bytes,
        full_length_sequences=engine.max_batch_size,
        pinned_pool_bytes=terms.pools.planned.pinned_bytes,
        shm_bytes=terms.pools.planned.shm_bytes,
    )


def computes_on_gpu(target: Target) -> bool:
    """Return whether the vision encoder computes on the GPU: ONNX Runtime does on the processor."""
    return target.facts.vision is not None and target.spec.vision.engine != "ONNXRuntime"


def _on_gpu(terms: ReferenceMemoryInputs) -> GpuMemory:
    target, engine = terms.target, terms.limits.engine
    facts, size = target.facts, DTYPE_BYTES[terms.dtype]
    parts = {
        "weights_bytes": _language_parameters(target) * size + adapter_bytes(facts, size),
        "vision_engine_bytes": _vision_weights(target, terms.dtype),
        "vision_activation_bytes": _vision_activations(
            target, terms.limits.vision_batch, terms.dtype
        ),
        # Tables are copied as they arrive, and become part of their prompt in a slot.
        "prompt_table_bytes": terms.pools.engine_copies_bytes
        + engine.max_batch_size * engine.max_input_len * facts.row_size * size,
        "cuda_pool_bytes": terms.pools.cuda.bytes,
        "kv_cache_bytes": cache_bytes(facts.text, engine, size)
        + kept_bytes(target, terms.limits, terms.dtype),
        "context_bytes": SERVER_BYTES + PROCESS_BYTES + _encoder_context(target, terms.sharing),
        "other_bytes": _step_bytes(terms, size),
    }
    return GpuMemory(
        rank=0, **parts, total_bytes=sum(parts.values()), gpu_memory_bytes=terms.gpu.memory_bytes
    )


def _on_host(terms: ReferenceMemoryInputs) -> HostMemory:
    """Return host memory: weights are read there before they are copied to the GPU."""
    target, size = terms.target, DTYPE_BYTES[terms.dtype]
    on_gpu = computes_on_gpu(target)
    parts = {
        "weights_bytes": target.facts.parameters * size,
        "vision_bytes": _vision_weights(target, "float32")
        if on_gpu
        else host_vision_bytes(target, terms.limits.vision_batch),
        "feature_cache_bytes": server_cache_bytes(target.spec),
    }
    pools = terms.pools.planned
    return planned_host(
        target,
        pools,
        parts,
        # Processes hold copies of the pixels and features that lie in /dev/shm.
        step_bytes=pools.shm_bytes,
        loading_bytes=target.facts.weight_bytes,
        # Server, language model and, on the GPU, encoder have contexts.
        process_bytes=HOST_PROCESS_BYTES + (2 + on_gpu) * CUDA_PROCESS_BYTES,
    )


def encoder_of(target: Target, limits: Limits, dtype: str, pools: Pools) -> EncoderMemory | None:
    """Return the bytes of an encoder in a pod of its own; without a GPU where it uses none."""
    batch, planned = limits.vision_batch, pools.planned
    if not computes_on_gpu(target) or encodes_on_processor(target.spec):
        vision = host_vision_bytes(target, batch)
        return encoder_memory(target.spec, planned, vision_bytes=vision, context_bytes=None)
    return encoder_memory(
        target.spec,
        planned,
        vision_bytes=_vision_weights(target, dtype) + _vision_activations(target, batch, dtype),
        # Its server holds a pool, and its one model computes.
        context_bytes=SERVER_BYTES + PROCESS_BYTES + _ENCODER_REST_BYTES,
    )


def _language_parameters(target: Target) -> int:
    facts, family = target.facts, target.family
    if family.kind is Kind.ENCODER_DECODER or facts.vision is None:
        return facts.parameters
    return min(facts.parameters, text_parameters(facts, family))


def _vision_weights(target: Target, dtype: str) -> int:
    if not computes_on_gpu(target):
        return 0
    return vision_parameters(target.facts, target.family) * _vision_bytes(target, dtype)


def _vision_activations(target: Target, batch: int, dtype: str) -> int:
    vision = target.facts.vision
    if vision is None or not computes_on_gpu(target):
        return 0
    positions = target.family.layout.positions_per_tile(vision)
    block = positions * vision.hidden_size * ACTIVATION_COPIES
    if target.family.layout.plain:
        # Attention is one operation, which stores no scores.
        images = batch + min(batch, _GRAPHED_IMAGES)
        tower = images * block * _vision_bytes(target, dtype)
        return tower + _WORKSPACES_BYTES
    # Tiles store them. Grids are one operation, which was not measured on a GPU in float32 and with
    # windows: they are counted as if it stored them.
    stored = positions if target.family.layout.masked else 0
    scores = heads_of(vision) * positions * stored * _SCORE_COPIES
    return batch * (block + scores) * _vision_bytes(target, dtype)


def _vision_bytes(target: Target, dtype: str) -> int:
    halves = target.family.layout.plain or target.spec.vision.engine == TENSORRT
    return _HALF_BYTES if halves and DTYPE_BYTES[dtype] == _HALF_BYTES else _EXPORTED_BYTES


def _encoder_context(target: Target, sharing: GpuSharing | None) -> int:
    if target.facts.vision is None:
        return 0
    if sharing is None:
        return SERVER_BYTES
    if sharing.mode == "TimeSlicing":
        return PROCESS_BYTES
    return SHARE_BYTES.get(sharing.thread_percentage, PROCESS_BYTES) + MPS_BYTES


def _step_bytes(terms: ReferenceMemoryInputs, size: int) -> int:
    """Return what the largest step computes in, and what captured passes hold."""
    text, limits = terms.target.facts.text, terms.limits.engine
    computed = computed_bytes(terms.target, limits, size)
    if _is_fused(terms.target):
        # Its passes keep the logits of all slots, and of a prompt's last row.
        computed += (limits.max_batch_size + 1) * text.vocabulary_size * size
        computed += _SPLIT_ROWS * (text.head_size + 2) * VALUE_BYTES
    return computed + _WORKSPACES_BYTES + _graphs(terms.target, limits) * _GRAPH_LAYER_BYTES


def _graphs(target: Target, limits: EngineLimits) -> int:
    if not _is_fused(target):
        return 0
    return target.facts.text.layers * captured_passes(limits.max_batch_size, limits.max_seq_len)


def _is_fused(target: Target) -> bool:
    return target.family.fused_passes and not target.facts.lora
