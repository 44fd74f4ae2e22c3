"""Bytes on the GPU of each rank, term by term, and the fraction for the key-value cache."""

from dataclasses import dataclass

from mm_api.contract import LORA_HOST_BYTES
from mm_api.documents.build_plan import EngineLimits
from mm_api.documents.model_facts import TextFacts
from mm_api.documents.model_plan import EncoderMemory, GpuMemory, HostMemory, MemoryPlan
from mm_api.documents.trtllm_build import GpuModel
from mm_api.dtypes import DTYPE_BYTES
from mm_api.families.family import Kind
from mm_operator.plan.engine.cache import CacheSize, fraction_of
from mm_operator.plan.engine.container_memory import PROCESS_BYTES as HOST_PROCESS_BYTES
from mm_operator.plan.engine.container_memory import TRTLLM_PROCESS_BYTES, planned_host
from mm_operator.plan.engine.encoder_memory import vision_activation_bytes, vision_engine_bytes
from mm_operator.plan.engine.encoders import encoder_memory, server_cache_bytes
from mm_operator.plan.engine.limits import Limits
from mm_operator.plan.engine.pools import CUDA_MINIMUM_BYTES, Pools
from mm_operator.plan.engine.request import PlanRequest, Target
from mm_operator.plan.engine.stored import weights_format
from mm_operator.plan.engine.weights import Split, weights_bytes

PROCESS_BYTES = 768 << 20
"""CUDA context of a process that computes. Measured on an H100: 527 MiB for a bare context, 746 MiB
once cuBLAS and kernels are loaded; rounded up."""

_LOGITS_BYTES = 4
_LOGITS_COPIES = 4
"""Sampling keeps logits, probabilities, sorted probabilities and indices in 32 bits."""

_ALL_REDUCE_BYTES = {True: 16_000_000, False: 8_000_000}
"""Workspace of the custom all-reduce: 16 MB up to two ranks, 8 MB above (plugin.py), as a ping, a
pong and three Lamport buffers, each for every rank."""
_ALL_REDUCE_BUFFERS = 5
_PAIR = 2


@dataclass(frozen=True, slots=True)
class MemoryInputs:
    """What goes into the memory of a GPU."""

    target: Target
    request: PlanRequest
    limits: Limits
    dtype: str
    gpu: GpuModel
    pools: Pools
    cache: CacheSize
    stores_scores: bool
    """Whether scores of images are stored, as engines of upstream's builder do."""

    @property
    def vision_activations(self) -> int:
        facts, family, batch = self.target.facts, self.target.family, self.limits.vision_batch
        return vision_activation_bytes(facts, family, batch, stores_scores=self.stores_scores)


def plan_memory(terms: MemoryInputs) -> MemoryPlan:
    """Return every term on every rank, and what is left for the cache."""
    ranks = terms.request.tensor_parallel * terms.request.pipeline_parallel
    per_gpu = [_rank(terms, rank) for rank in range(ranks)]
    fullest = max(per_gpu, key=lambda gpu: gpu.total_bytes)
    without_cache = fullest.total_bytes - fullest.kv_cache_bytes
    available = max(0, fullest.gpu_memory_bytes - without_cache)
    # The vision engine may load after the cache was made: then more is free at that moment, and
    # the fraction must leave room for it (#known-failures: the order is not guaranteed).
    late = fullest.vision_engine_bytes + fullest.vision_activation_bytes
    if terms.target.facts.vision is not None:
        late += PROCESS_BYTES
    fraction = terms.request.kv_fraction
    if fraction is None:
        fraction = fraction_of(available, available + late)
    pool = int(fraction * available)
    sequence = terms.cache.sequence_bytes
    return MemoryPlan(
        per_gpu=per_gpu,
        host=_on_host(terms, per_gpu),
        kv_bytes_per_token=terms.cache.bytes_per_token,
        cross_kv_bytes_per_token=terms.cache.cross_bytes_per_token,
        kv_cache_free_gpu_memory_fraction=fraction,
        cross_kv_cache_fraction=terms.cache.cross_fraction,
        kv_pool_bytes=pool,
        full_length_sequences=pool // sequence if sequence else 0,
        pinned_pool_bytes=terms.pools.planned.pinned_bytes,
        shm_bytes=terms.pools.planned.shm_bytes,
        encoder=_encoder(terms),
    )


def _on_host(terms: MemoryInputs, gpus: list[GpuMemory]) -> HostMemory:
    """Return host memory: the engine of each rank is read there before it is copied to its GPU."""
    pools = terms.pools.planned
    parts = {
        "weights_bytes": sum(gpu.weights_bytes for gpu in gpus),
        "vision_bytes": sum(gpu.vision_engine_bytes for gpu in gpus),
        "feature_cache_bytes": server_cache_bytes(terms.target.spec),
    }
    # Tables and sampling of each GPU have a copy of the same size at the most, and the
    # pixels and features in /dev/shm those of the processes that read them.
    copies = sum(gpu.prompt_table_bytes + gpu.other_bytes for gpu in gpus) + pools.shm_bytes
    # What starts the ranks is a process like theirs.
    contexts = 1 + sum(gpu.context_bytes for gpu in gpus) // PROCESS_BYTES
    return planned_host(
        terms.target,
        pools,
        parts,
        step_bytes=copies + (LORA_HOST_BYTES if terms.request.lora else 0),
        loading_bytes=parts["weights_bytes"] + parts["vision_bytes"],
        process_bytes=HOST_PROCESS_BYTES + contexts * TRTLLM_PROCESS_BYTES,
    )


def _encoder(terms: MemoryInputs) -> EncoderMemory | None:
    """Return the bytes of an encoder in a pod of its own, which has one process on its GPU."""
    facts, family = terms.target.facts, terms.target.family
    return encoder_memory(
        terms.target.spec,
        terms.pools.planned,
        vision_bytes=vision_engine_bytes(facts, family) + terms.vision_activations,
        context_bytes=PROCESS_BYTES,
        process_bytes=TRTLLM_PROCESS_BYTES,
    )


def _rank(terms: MemoryInputs, rank: int) -> GpuMemory:
    first = rank == 0
    request, facts, family = terms.request, terms.target.facts, terms.target.family
    encoders = int(facts.vision is not None and first)
    size = DTYPE_BYTES[terms.dtype]
    split = Split(
        request.tensor_parallel,
        request.pipeline_parallel,
        rank // request.tensor_parallel,
        request.expert_parallel,
    )
    parts = {
        "weights_bytes": weights_bytes(
            facts,
            family,
            split,
            dtype=terms.dtype,
            quantization=weights_format(request.quantization, facts),
        ),
        # Rank 0 alone runs the encoder (#pools).
        "vision_engine_bytes": encoders * vision_engine_bytes(facts, family),
        "vision_activation_bytes": encoders * terms.vision_activations,
        # Reserved by the engine for full batches, on every rank (#sizing); counted on every stage
        # of a pipeline too, although the first alone reads it.
        "prompt_table_bytes": terms.limits.engine.max_multimodal_len * facts.row_size * size,
        # The flag covers GPU 0 only; the others keep Triton's default (#pools).
        "cuda_pool_bytes": terms.pools.cuda.bytes if first else CUDA_MINIMUM_BYTES,
        "kv_cache_bytes": terms.cache.needed_bytes,
        "context_bytes": (1 + encoders) * PROCESS_BYTES,
        "other_bytes": _other(terms, size),
    }
    return GpuMemory(
        rank=rank,
        **parts,
        total_bytes=sum(parts.values()),
        gpu_memory_bytes=terms.gpu.memory_bytes,
    )


def _other(terms: MemoryInputs, size: int) -> int:
    """Return activations of the largest step, sampling buffers, input copies, all-reduce."""
    text, limits = terms.target.facts.text, terms.limits.engine
    ranks = terms.request.tensor_parallel
    activations = limits.max_num_tokens * width_of(text, ranks) * size
    copies = terms.pools.engine_copies_bytes
    buffers = sampling_bytes(limits, text) + copies + reduce_bytes(ranks)
    return activations + buffers + _encoder_buffers(terms, size)


def width_of(text: TextFacts, ranks: int) -> int:
    """Return the numbers that a step holds for each of its tokens on one of `ranks` GPUs.

    Its input, the residual, the attention output, the projections and the perceptron's inside, the
    last two split over the ranks.
    """
    heads = (text.attention_heads + 2 * text.key_value_heads) * text.head_size
    return 3 * text.hidden_size + (heads + 2 * text.intermediate_size) // ranks


def sampling_bytes(limits: EngineLimits, text: TextFacts) -> int:
    """Return what sampling a token for each sequence takes."""
    rows = limits.max_batch_size * limits.max_beam_width
    return rows * text.vocabulary_size * _LOGITS_BYTES * _LOGITS_COPIES


def reduce_bytes(ranks: int) -> int:
    """Return the workspace in which `ranks` GPUs add up their parts of a layer."""
    return _ALL_REDUCE_BUFFERS * ranks * _ALL_REDUCE_BYTES[ranks <= _PAIR] if ranks > 1 else 0


def _encoder_buffers(terms: MemoryInputs, size: int) -> int:
    """Return what an encoder-decoder's encoder computes in, its output and T5's biases."""
    encoder, limits = terms.target.facts.encoder, terms.limits.engine
    if encoder is None or terms.target.family.kind is not Kind.ENCODER_DECODER:
        return 0
    ranks = terms.request.tensor_parallel
    read = limits.max_encoder_input_len or 0
    tokens = limits.max_batch_size * read
    heads = 3 * encoder.attention_heads * encoder.head_size
    width = 3 * encoder.hidden_size + (heads + 2 * encoder.intermediate_size) // ranks
    biases = 0
    if terms.target.family.text.relative_buckets:  # a table of positions squared for each head
        longest = max(read, limits.max_seq_len)
        biases = -(-encoder.attention_heads // ranks) * longest**2
    return (tokens * (width + encoder.hidden_size) + biases) * size
