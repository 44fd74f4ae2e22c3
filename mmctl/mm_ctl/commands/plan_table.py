"""A plan as a page for people: limits, memory with a bar for each GPU, pools, what to do."""

from collections.abc import Iterable, Iterator

from mm_api.documents.model_plan import GpuMemory, ModelPlan, Suggestion
from mm_api.sentences import count
from mm_operator.plan.engine.suggestions import TERMS

BAR_WIDTH = 60
_LETTERS = "WVAPCKXO"
"""One letter for each of `TERMS`, in their order."""

_GIB = 1 << 30
_MIB = 1 << 20


def as_table(planned: ModelPlan) -> str:
    return "\n".join(_lines(planned))


def _lines(planned: ModelPlan) -> Iterator[str]:
    yield _title(planned)
    if planned.fit is not None:
        yield f"{planned.fit.verdict}: {planned.fit.message}"
    if planned.limits is not None:
        limits = planned.limits.model_dump(by_alias=True).items()
        yield from _section("LIMITS", (f"{name:<22}{value:>12,}" for name, value in limits))
    yield from _memory(planned)
    yield from _encoder(planned)
    yield from _pools(planned)
    yield from _evaluation(planned)
    suggestions = planned.fit.suggestions if planned.fit is not None else ()
    yield from _section("WHAT WOULD FIT", map(_suggested, suggestions))
    reasons = (f"{one.field} = {one.value}: {one.reason}" for one in planned.reasons)
    yield from _section("REASONS", reasons, always=True)
    yield from _section("WARNINGS", (f"{one.message} ({one.code})" for one in planned.warnings))
    if planned.fingerprint:
        yield ""
        yield f"fingerprint = {planned.fingerprint}"


def _section(title: str, rows: Iterable[str], *, always: bool = False) -> Iterator[str]:
    indented = [f"  {row}" for row in rows]
    if indented or always:
        yield from ("", title, *indented)


def _suggested(option: Suggestion) -> str:
    changes = ", ".join(f"{one.path}: {one.current} -> {one.suggested}" for one in option.changes)
    return f"{changes}  ({_size(option.total_bytes)} a GPU, {count(option.gpus, 'GPU')})"


def _title(planned: ModelPlan) -> str:
    parts = [planned.family, planned.backend]
    if planned.trtllm_version:
        parts.append(f"TensorRT-LLM {planned.trtllm_version}")
    if planned.gpu is not None:
        parts.append(f"{planned.ranks} x {planned.gpu.product}")
    if planned.dtype:
        parts.append(planned.dtype)
    return f"{planned.model}: {', '.join(parts)}"


def _memory(planned: ModelPlan) -> Iterator[str]:
    memory = planned.memory
    if memory is None:
        return
    yield ""
    yield "MEMORY"
    for gpu in memory.per_gpu:
        yield f"  GPU {gpu.rank} [{_bar(gpu)}] {_size(gpu.total_bytes)} of " + _size(
            gpu.gpu_memory_bytes
        )
    if memory.per_gpu:
        first = memory.per_gpu[0]
        for letter, (field, name) in zip(_LETTERS, TERMS.items(), strict=True):
            yield f"    {letter} {name:<20}{getattr(first, field):>18,}"
        yield f"  KV fraction {memory.kv_cache_free_gpu_memory_fraction}" + (
            f", cross attention {memory.cross_kv_cache_fraction}"
            if memory.cross_kv_cache_fraction is not None
            else ""
        )
    for name, value in (
        *memory.host.model_dump(by_alias=True, exclude_defaults=True).items(),
        ("kvBytesPerToken", memory.kv_bytes_per_token),
        ("crossKvBytesPerToken", memory.cross_kv_bytes_per_token),
        ("pinnedPoolBytes", memory.pinned_pool_bytes),
        ("shmBytes", memory.shm_bytes),
    ):
        yield f"  {name:<22}{value:>18,}"


def _encoder(planned: ModelPlan) -> Iterator[str]:
    encoder = planned.memory.encoder if planned.memory else None
    terms = encoder.model_dump(by_alias=True, exclude_none=True).items() if encoder else ()
    rows = (f"{name:<22}{value:>18,}" for name, value in terms)
    yield from _section("MEMORY OF EACH ENCODER'S POD", rows)


def _pools(planned: ModelPlan) -> Iterator[str]:
    pool = planned.pool
    if pool is not None:
        text = (
            f"{pool.copies} x {pool.live_requests} requests x {pool.table_bytes_per_request:,} "
            f"bytes x {pool.factor} = {pool.bytes:,}; kept by {pool.bounded_by}"
        )
        yield from _section("CUDA POOL", (text,))


def _evaluation(planned: ModelPlan) -> Iterator[str]:
    cost = planned.evaluation
    if cost is not None:
        text = (
            f"the checkpoint's answers in {cost.dtype} on the processor: {cost.memory_bytes:,}"
            f" bytes, about {cost.seconds:,} s"
        )
        yield from _section("EVALUATION AT THE BUILD", (text,))


def _bar(gpu: GpuMemory) -> str:
    """Return letters in the shares of the terms, dots for what is free, `!` beyond the end."""
    most = max(gpu.total_bytes, gpu.gpu_memory_bytes)
    cells, filled = "", 0
    for letter, field in zip(_LETTERS, TERMS, strict=True):
        filled += getattr(gpu, field)
        cells = cells.ljust(round(filled / most * BAR_WIDTH), letter)
    cells = cells.ljust(BAR_WIDTH, ".")
    end = round(gpu.gpu_memory_bytes / most * BAR_WIDTH)
    return cells if end >= BAR_WIDTH else f"{cells[:end]}|{'!' * (BAR_WIDTH - end)}"


def _size(count: int) -> str:
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count / _MIB:.0f} MiB"
