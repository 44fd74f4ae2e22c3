"""What would fit: the smallest change of each kind, the cheapest first.

Fewer requests at a time cost throughput, shorter sequences and fewer images cost abilities,
quantization may cost accuracy, and more GPUs cost money: they are tried in this order. When no
single change is enough, quantization or more GPUs are combined with the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mm_api import sentences
from mm_api.documents.model_plan import Change, Fit, GpuMemory, MemoryPlan, Suggestion
from mm_api.sentences import count
from mm_operator.errors import SpecError
from mm_operator.plan.engine.backend import Backend, Sizes
from mm_operator.plan.engine.limits import plan_limits
from mm_operator.plan.engine.pools import plan_pools
from mm_operator.plan.engine.request import PlanRequest, Target

TERMS = {
    "weights_bytes": "weights",
    "vision_engine_bytes": "vision engine",
    "vision_activation_bytes": "vision activations",
    "prompt_table_bytes": "prompt table",
    "cuda_pool_bytes": "CUDA pool",
    "kv_cache_bytes": "KV cache",
    "context_bytes": "CUDA contexts",
    "other_bytes": "buffers",
}
"""Field of `GpuMemory` -> what people call it."""


def fullest(memory: MemoryPlan) -> GpuMemory:
    """Return the GPU that has the least memory left."""
    return max(memory.per_gpu, key=lambda gpu: gpu.total_bytes - gpu.gpu_memory_bytes)


def verdict(memory: MemoryPlan) -> Fit:
    """Return the verdict in numbers and in one sentence."""
    gpu = fullest(memory)
    short = max(0, gpu.total_bytes - gpu.gpu_memory_bytes)
    field = max(TERMS, key=lambda name: getattr(gpu, name))
    largest, total, there = TERMS[field], sentences.size(gpu.total_bytes), gpu.gpu_memory_bytes
    if short:
        message = (
            f"{sentences.size(short)} are missing on GPU {gpu.rank}: {total} are needed, and "
            f"it has {sentences.size(there)}; the largest part is {largest} with "
            f"{sentences.size(getattr(gpu, field))}"
        )
    else:
        message = (
            f"{total} of {sentences.size(there)} are needed on the fullest GPU; the KV cache holds "
            f"at least {count(memory.full_length_sequences, 'full sequence')}"
        )
    return Fit(
        verdict="DoesNotFit" if short else "Fits",
        short_bytes=short,
        largest_term=largest,
        message=message,
    )


MOST = 5
"""Suggestions shown: one of each kind is enough to choose from."""

_RANKS = (2, 4, 8)
_SHORTEST = 64
"""No answer is useful in sequences shorter than this beyond the prompt."""


@dataclass(frozen=True, slots=True)
class _Trial:
    request: PlanRequest
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class _Search:
    """What stays the same while requests are tried."""

    target: Target
    backend: Backend
    quantizations: tuple[str, ...]

    def sizes(self, request: PlanRequest) -> Sizes | None:
        """Return the sizes of a request; None: it cannot be."""
        if any(self.backend.problems(self.target, replace(request, gpu_count=0))):
            return None
        try:
            return size(self.target, request, self.backend)
        except SpecError:
            return None


def suggested(
    found: Fit,
    target: Target,
    request: PlanRequest,
    backend: Backend,
    quantizations: tuple[str, ...] = (),
) -> Fit:
    """Return the verdict with the smallest changes that fit, if any, the cheapest first.

    `quantizations`: that backend and GPU can do.
    """
    if found.verdict == "Fits":
        return found
    search, start = _Search(target, backend, quantizations), _Trial(request, ())
    single = [
        suggestion
        for kind in (_batches, _lengths, _images, _quantizations, _ranks)
        if (suggestion := _first(kind(start, search), search))
    ]
    options = (single or list(_pairs(start, search)))[:MOST]
    return found.model_copy(update={"suggestions": options})


def _pairs(start: _Trial, search: _Search) -> Iterator[Suggestion]:
    for first in (_quantizations, _ranks):
        for trial in first(start, search):
            for second in (_batches, _lengths, *(() if first is _ranks else (_ranks,))):
                if suggestion := _first(second(trial, search), search):
                    yield suggestion


def _first(trials: Iterator[_Trial], search: _Search) -> Suggestion | None:
    """Return the first trial that fits: trials come in the order of growing change."""
    for trial in trials:
        sizes = search.sizes(trial.request)
        if sizes is None:
            continue
        gpu = fullest(sizes.memory)
        if gpu.total_bytes <= gpu.gpu_memory_bytes:
            return Suggestion(
                changes=list(trial.changes),
                gpus=trial.request.tensor_parallel * trial.request.pipeline_parallel,
                total_bytes=gpu.total_bytes,
                free_bytes=gpu.gpu_memory_bytes - gpu.total_bytes,
            )
    return None


def _change(
    trial: _Trial, request: PlanRequest, path: str, current: object, suggested: object
) -> _Trial:
    change = Change(
        path=f"spec.engine.{path}",
        current="none" if current is None else str(current),
        suggested=str(suggested),
    )
    return _Trial(request, (*trial.changes, change))


def _batches(trial: _Trial, _: _Search) -> Iterator[_Trial]:
    batch = trial.request.max_batch_size
    steps = range(batch - 1, 0, -1) if batch <= MOST * MOST else _halves(batch)
    for smaller in steps:
        request = replace(trial.request, max_batch_size=smaller)
        yield _change(trial, request, "maxBatchSize", batch, smaller)


def _halves(number: int) -> Iterator[int]:
    while number > 1:
        number //= 2
        yield number


def _lengths(trial: _Trial, search: _Search) -> Iterator[_Trial]:
    try:
        now = size(search.target, trial.request, search.backend).limits.engine.max_seq_len
    except SpecError:
        return
    shorter = now * 7 // 8 // _SHORTEST * _SHORTEST
    while shorter >= _SHORTEST:
        request = replace(trial.request, max_seq_len=shorter, max_input_len=None)
        yield _change(trial, request, "maxSeqLen", now, shorter)
        shorter = shorter * 7 // 8 // _SHORTEST * _SHORTEST


def _images(trial: _Trial, _: _Search) -> Iterator[_Trial]:
    images = trial.request.max_images
    for fewer in range(images - 1, 0, -1):
        request = replace(trial.request, max_images=fewer)
        yield _change(trial, request, "maxImagesPerRequest", images, fewer)


def _quantizations(trial: _Trial, search: _Search) -> Iterator[_Trial]:
    if trial.request.quantization is not None:
        return
    for name in search.quantizations:
        request = replace(trial.request, quantization=name)
        yield _change(trial, request, "quantization", None, name)


def _ranks(trial: _Trial, _: _Search) -> Iterator[_Trial]:
    for ranks in _RANKS:
        if ranks > trial.request.tensor_parallel:
            request = replace(trial.request, tensor_parallel=ranks)
            yield _change(
                trial, request, "parallelism.tensor", trial.request.tensor_parallel, ranks
            )


def size(target: Target, request: PlanRequest, backend: Backend) -> Sizes:
    """Return the sizes, which the search for what fits calls often; SpecError: contradictions."""
    facts, family = target.facts, target.family
    dtype, reason = backend.dtype(target, request)
    limits = plan_limits(request, facts, family)
    pools = plan_pools(request, target, limits, dtype, copies=backend.pool_copies(target, request))
    memory = backend.memory(target, request, limits, dtype, pools)
    return Sizes(request, limits, dtype, reason, pools, memory)
