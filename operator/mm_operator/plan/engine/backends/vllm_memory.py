"""Bytes of vLLM on each GPU, term by term, and the part of a GPU that its flag names.

vLLM takes `--gpu-memory-utilization` of all of a GPU, less what its profile run needed, for keys
and values; its CUDA context was there before and comes on top (vllm/v1/worker/gpu_worker.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, floor

from mm_api.contract import FEATURES_MOUNT
from mm_api.documents.build_plan import EngineLimits
from mm_api.documents.model_plan import GpuMemory, MemoryPlan
from mm_api.documents.trtllm_build import GpuModel
from mm_api.documents.vllm_serve import FeatureFolder
from mm_api.dtypes import DTYPE_BYTES
from mm_operator.plan.engine.backend import Sizes
from mm_operator.plan.engine.cache import CacheSize
from mm_operator.plan.engine.container_memory import CUDA_PROCESS_BYTES, planned_host
from mm_operator.plan.engine.container_memory import PROCESS_BYTES as HOST_PROCESS_BYTES
from mm_operator.plan.engine.encoder_memory import (
    audio_activation_bytes,
    vision_activation_bytes,
    vision_engine_bytes,
    vision_parameters,
)
from mm_operator.plan.engine.encoders import server_cache_bytes
from mm_operator.plan.engine.host_memory import host_vision_bytes
from mm_operator.plan.engine.limits import Limits
from mm_operator.plan.engine.memory import PROCESS_BYTES, reduce_bytes, sampling_bytes, width_of
from mm_operator.plan.engine.pools import Pools, image_side
from mm_operator.plan.engine.reference_memory import encoder_of
from mm_operator.plan.engine.request import PlanRequest, Target
from mm_operator.plan.engine.stored import weights_format
from mm_operator.plan.engine.units import GIB, MIB, ceil_to
from mm_operator.plan.engine.weights import Split, weights_bytes

BLOCK_TOKENS = 16
"""Length of a block of keys and values, vLLM's default on CUDA."""

_STEPS = 10_000
"""The part is written with four digits: 14 MB of an H200."""

_GRAPH_LAYER_BYTES = 384 << 10
"""What a CUDA graph takes for each layer: launches, and a share of the pool. Chosen so that what a
driver counted beside keys and values (15,872 and 4,924 MiB) is not above the plan."""
_MODES = 2
"""Each size is captured at once and piecewise (FULL_AND_PIECEWISE, vLLM's default)."""
_SMALL, _MIDDLE, _LARGEST, _GRAPHS_A_SEQUENCE = 8, 256, 512, 2
"""Captured sizes: 1, 2, 4, each 8th up to 256 and each 16th to twice the sequences, at most 512
(_set_cudagraph_sizes of vllm/config/vllm.py)."""

_FILE_BYTES = 2 << 12
"""What an image takes beside its features: a folder, and the file's head."""

_LIBRARY_BYTES = 512 * MIB
"""Beside tensors and context: workspaces of cuBLAS and FlashAttention, compiled kernels, and blocks
that torch keeps. Chosen as the graphs' bytes."""
_RANKS_BYTES = 1408 * MIB
"""What each of several ranks takes after the profile run: channels of NCCL, buffers of vLLM's own
all-reduce. On two H200 a driver counted 1,022 and 1,235 MiB (bench/gpu/results/two.json)."""

_QUEUE_BYTES = 160 * MIB
"""A message queue in /dev/shm: ten chunks of 16 MiB (shm_broadcast.py)."""
_SHM_BYTES, _NCCL_BYTES = 256 * MIB, 1 << 30

_CPU_PROCESSES = 3
"""The API's, the engine's, and the worker's, which there is on CPUs with one rank, too."""
_CPU_PROCESS_BYTES = 1 << 30
"""What each takes: 0.6 to 0.7 GB were counted of vLLM 0.32. Beside a tiny LLaVA with a GiB for keys
and values the three took 3.03 GB in all, of a planned limit of 5.56."""

_CACHES = 2
"""The media cache is kept by the API's process and by the engine's (docs/configuration/optimization
of vLLM)."""


_VIDEO_PIXEL_BYTES = 3 * 11
"""Memory of a pixel of a video that a request holds: three values as base64, as a file, as a frame
and twice in float32. Chosen, not measured."""


@dataclass(frozen=True, slots=True)
class VllmMemoryInputs:
    """What goes into the memory of a GPU."""

    target: Target
    request: PlanRequest
    limits: Limits
    dtype: str
    gpu: GpuModel
    cache: CacheSize
    adapter_bytes: int


def shm_bytes(ranks: int, nodes: int) -> int:
    """Return the size of /dev/shm of a pod: one rank needs little, several talk through it."""
    return _SHM_BYTES + (ranks > 1) * (_NCCL_BYTES + (1 + ranks // nodes) * _QUEUE_BYTES)


def plan_vllm_memory(terms: VllmMemoryInputs, pools: Pools) -> MemoryPlan:
    """Return every term on every rank, and the utilization that follows."""
    ranks = terms.request.tensor_parallel * terms.request.pipeline_parallel
    per_gpu = [_rank(terms, rank) for rank in range(ranks)]
    here = ranks // terms.request.nodes
    # Host memory is that of one pod; each has the same limit.
    pods = (per_gpu[first : first + here] for first in range(0, ranks, here))
    on_node = max(pods, key=lambda some: sum(gpu.total_bytes for gpu in some))
    full = max(per_gpu, key=lambda one: one.total_bytes)
    # At its start vLLM refuses a part that is not free, and its context is not; what libraries
    # take later was not there when its profile ran.
    outside = full.context_bytes + _later_bytes(ranks)
    inside = full.total_bytes - full.kv_cache_bytes - outside
    most = max(0, floor((terms.gpu.memory_bytes - outside) / terms.gpu.memory_bytes * _STEPS))
    left = max(0, most * terms.gpu.memory_bytes // _STEPS - inside)
    wanted = inside + int((terms.request.kv_fraction or 1.0) * left)
    part = min(most, ceil(wanted / terms.gpu.memory_bytes * _STEPS)) / _STEPS
    pool = max(0, int(part * terms.gpu.memory_bytes) - inside)
    vision = sum(gpu.vision_engine_bytes for gpu in on_node)
    shm = shm_bytes(ranks, terms.request.nodes)
    parts = {
        "weights_bytes": sum(gpu.weights_bytes for gpu in on_node),
        "vision_bytes": vision,
        "feature_cache_bytes": _CACHES * server_cache_bytes(terms.target.spec),
    }
    shared = pools.planned.model_copy(update={"cuda_bytes": 0, "pinned_bytes": 0})
    return MemoryPlan(
        per_gpu=per_gpu,
        encoder=encoder_of(terms.target, terms.limits, terms.dtype, pools),
        host=planned_host(
            terms.target,
            shared.model_copy(update={"shm_bytes": shm}),
            parts,
            step_bytes=sum(gpu.other_bytes + gpu.prompt_table_bytes for gpu in on_node)
            + _videos_bytes(terms, pools),
            loading_bytes=here * terms.target.facts.weight_bytes,  # each rank reads every file
            process_bytes=HOST_PROCESS_BYTES + (1 + here) * CUDA_PROCESS_BYTES,
        ),
        kv_bytes_per_token=terms.cache.bytes_per_token,
        cross_kv_bytes_per_token=0,
        kv_cache_free_gpu_memory_fraction=terms.request.kv_fraction or 1.0,
        gpu_memory_utilization=part,
        kv_pool_bytes=pool,
        full_length_sequences=pool // terms.cache.sequence_bytes,
        pinned_pool_bytes=0,
        shm_bytes=shm,
    )


def _later_bytes(ranks: int) -> int:
    return _LIBRARY_BYTES + (ranks > 1) * _RANKS_BYTES


def plan_cpu_memory(terms: VllmMemoryInputs, pools: Pools) -> MemoryPlan:
    """Return the bytes of a server without a GPU, whose keys and values get a number of GiB.

    They are VLLM_CPU_KVCACHE_SPACE, which vLLM 0.32 reads, and calls a legacy setting.
    """
    target, limits, size = terms.target, terms.limits, DTYPE_BYTES[terms.dtype]
    facts, engine = target.facts, limits.engine
    pool = ceil_to(terms.cache.needed_bytes, GIB)
    images = images_at_once(limits, terms.request) if facts.vision else 0
    step = max(engine.max_num_tokens, limits.features_per_image)
    shm = _SHM_BYTES + 2 * _QUEUE_BYTES  # to the worker and back
    parts = {
        "weights_bytes": _cpu_weights(terms) + terms.adapter_bytes,
        "vision_bytes": host_vision_bytes(target, _tiles(terms, images)),
        "prompt_table_bytes": 2 * step * facts.row_size * size if images else 0,
        "kv_cache_bytes": pool,
        "feature_cache_bytes": _CACHES * server_cache_bytes(target.spec),
    }
    return MemoryPlan(
        per_gpu=[],
        host=planned_host(
            target,
            pools.planned.model_copy(update={"cuda_bytes": 0, "pinned_bytes": 0, "shm_bytes": shm}),
            parts,
            step_bytes=engine.max_num_tokens * width_of(facts.text, 1) * size
            + sampling_bytes(engine, facts.text)
            + _videos_bytes(terms, pools),
            loading_bytes=facts.weight_bytes,
            process_bytes=_CPU_PROCESSES * _CPU_PROCESS_BYTES,
        ),
        kv_bytes_per_token=terms.cache.bytes_per_token,
        cross_kv_bytes_per_token=0,
        kv_cache_free_gpu_memory_fraction=0,
        kv_pool_bytes=pool,
        full_length_sequences=pool // terms.cache.sequence_bytes,
        pinned_pool_bytes=0,
        shm_bytes=shm,
    )


def _cpu_weights(terms: VllmMemoryInputs) -> int:
    """Return the weights of a pod: of several, each has its rank's and all of the towers."""
    facts, family = terms.target.facts, terms.target.family
    tensor, size = terms.request.tensor_parallel, DTYPE_BYTES[terms.dtype]
    if tensor == 1:
        return facts.parameters * size
    split = Split(tensor, 1, 0, 1)
    text = weights_bytes(facts, family, split, dtype=terms.dtype, quantization=None)
    return text + vision_parameters(facts, family) * size


def images_at_once(limits: Limits, request: PlanRequest) -> int:
    """Return how many images the profile run encodes together: those that fill a step."""
    if not limits.features_per_image or not request.max_images:
        return 0
    fill = max(1, limits.engine.max_num_tokens // limits.features_per_image)
    return min(fill, limits.engine.max_batch_size * request.max_images)


def _tiles(terms: VllmMemoryInputs, images: int) -> int:
    """Return what the tower encodes together: so many images, or all frames of a video."""
    vision, layout = terms.target.facts.vision, terms.target.family.layout
    if vision is None or not images:
        return 0
    frames = terms.request.max_video_frames or 0
    return max(images * layout.tiles_per_image(vision), -(-frames // layout.frames_per_tile))


def _videos_bytes(terms: VllmMemoryInputs, pools: Pools) -> int:
    side = image_side(terms.target.facts, terms.target.family)
    frames = (terms.request.max_video_frames or 0) * pools.gateway_concurrency
    return frames * side**2 * _VIDEO_PIXEL_BYTES


def feature_folder(target: Target, sizes: Sizes) -> FeatureFolder:
    """Return the folder in which features of all requests inside are handed over.

    Twice as many: those of clients that have left stay until no step reads them.
    """
    row = target.facts.row_size * DTYPE_BYTES[sizes.dtype]
    images = sizes.limits.engine.max_images_per_request
    request = sizes.limits.request_features * row + images * _FILE_BYTES
    return FeatureFolder(
        path=FEATURES_MOUNT, most_bytes=2 * sizes.pools.gateway_concurrency * request
    )


def largest_graph(request: PlanRequest, limits: EngineLimits) -> int:
    """Return the tokens of the largest captured step: vLLM's default, or all beside encoders."""
    most = min(_LARGEST, limits.max_num_tokens)
    usual = min(most, _GRAPHS_A_SEQUENCE * limits.max_batch_size)
    return usual if request.prompt_step is None else most


def graph_sizes(most: int) -> Iterator[int]:
    """Yield the numbers of tokens that graphs are captured for."""
    sizes = [1, 2, 4, *range(_SMALL, _MIDDLE, _SMALL), *range(_MIDDLE, _LARGEST + 1, 2 * _SMALL)]
    return (one for one in sizes if one <= most)


def _rank(terms: VllmMemoryInputs, rank: int) -> GpuMemory:
    request, limits = terms.request, terms.limits.engine
    facts, size = terms.target.facts, DTYPE_BYTES[terms.dtype]
    # Attention in the towers knows where an image ends; no mask is stored.
    layout = replace(terms.target.family.layout, masked=False)
    family = replace(terms.target.family, layout=layout)
    tensor, sees = request.tensor_parallel, facts.vision is not None and request.max_images > 0
    split = Split(tensor, request.pipeline_parallel, rank // tensor, request.expert_parallel)
    first = rank < tensor
    images = images_at_once(terms.limits, request) if first and sees else 0
    read = (facts.encoder and facts.encoder.max_positions) or 0
    step = max(limits.max_num_tokens, terms.limits.features_per_image, read)
    ranks = tensor * request.pipeline_parallel
    graphs = len(list(graph_sizes(largest_graph(request, limits))))
    other = limits.max_num_tokens * width_of(facts.text, tensor) * size
    other += sampling_bytes(limits, facts.text) + reduce_bytes(tensor)
    other += _MODES * graphs * facts.text.layers * _GRAPH_LAYER_BYTES
    parts = {
        "weights_bytes": weights_bytes(
            facts, family, split, dtype=terms.dtype, quantization=weights_format(None, facts)
        ),
        "vision_engine_bytes": vision_engine_bytes(facts, family) if first else 0,
        "vision_activation_bytes": vision_activation_bytes(facts, family, _tiles(terms, images))
        + audio_activation_bytes(facts, family, limits.max_num_tokens),
        # Features that wait for their place in a step: vLLM's encoder cache is a step of them.
        "prompt_table_bytes": 2 * step * facts.row_size * size
        if images or facts.audio or read
        else 0,
        "cuda_pool_bytes": 0,
        "kv_cache_bytes": terms.cache.needed_bytes,
        "context_bytes": PROCESS_BYTES,
        "other_bytes": other + _later_bytes(ranks) + terms.adapter_bytes,
    }
    return GpuMemory(
        rank=rank,
        **parts,
        total_bytes=sum(parts.values()),
        gpu_memory_bytes=terms.gpu.memory_bytes,
    )
