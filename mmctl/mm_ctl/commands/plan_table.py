"""A plan as a page for people: limits, memory with bars, pools, what to do."""

import json
from collections.abc import Iterable, Iterator, Sequence

from mm_api.documents.model_plan import ModelPlan, Suggestion
from mm_api.sentences import count, size
from mm_ctl.commands.memory_bars import PARTS, bars_of

BAR_WIDTH = 60
_LETTERS = dict(zip(PARTS, "WVAPCKXOFNSTLR", strict=True))


def as_table(planned: ModelPlan) -> str:
    return "\n".join(_lines(planned))


def _lines(planned: ModelPlan) -> Iterator[str]:
    yield _title(planned)
    if planned.fit is not None:
        yield f"{planned.fit.verdict}: {planned.fit.message}"
        yield from _section("WHAT WOULD FIT", map(_suggested, planned.fit.suggestions))
    if planned.limits is not None:
        limits = planned.limits.model_dump(by_alias=True).items()
        yield from _section("LIMITS", (f"{name:<22}{value:>12,}" for name, value in limits))
    yield from _memory(planned)
    yield from _section("ENCODERS", [planned.bottleneck] if planned.bottleneck else ())
    if pool := planned.pool:
        text = (
            f"{pool.copies} x {pool.live_requests} requests x {pool.table_bytes_per_request:,} "
            f"bytes x {pool.factor} = {pool.bytes:,}; kept by {pool.bounded_by}"
        )
        yield from _section("CUDA POOL", (text,))
    if cost := planned.evaluation:
        text = (
            f"the checkpoint's answers in {cost.dtype} on the processor: "
            f"{size(cost.memory_bytes)}, about {cost.seconds:,} s"
        )
        yield from _section("EVALUATION AT THE BUILD", (text,))
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
    return f"{changes}  ({size(option.total_bytes)} a GPU, {count(option.gpus, 'GPU')})"


def _title(planned: ModelPlan) -> str:
    parts = [planned.family, planned.backend]
    if planned.trtllm_version:
        parts.append(f"TensorRT-LLM {planned.trtllm_version}")
    if planned.gpu is not None:
        parts.append(f"{planned.ranks} x {planned.gpu.product}")
    if planned.vllm is not None and planned.vllm.nodes:
        parts.append(f"{planned.vllm.nodes} nodes")
    if planned.dtype:
        parts.append(planned.dtype)
    return f"{planned.model}: {', '.join(parts)}"


def _memory(planned: ModelPlan) -> Iterator[str]:
    memory = planned.memory
    if memory is None:
        return
    yield from ("", "MEMORY")
    for bar in bars_of(json.loads(planned.to_json())):
        parts, limit = bar["parts"], bar["limit"]
        used = sum(taken for _, taken in parts)
        yield f"  {bar['name']:<19} [{_bar(parts, limit or used)}] {size(used)}" + (
            f" of {size(limit)}" if limit else ""
        )
        yield from (f"    {_LETTERS[name]} {name:<31}{size(taken):>10}" for name, taken in parts)
    yield f"  KV fraction {memory.kv_cache_free_gpu_memory_fraction}" + (
        f", cross attention {memory.cross_kv_cache_fraction}"
        if memory.cross_kv_cache_fraction is not None
        else ""
    )
    yield f"  {memory.kv_bytes_per_token:,} bytes of KV cache for a token" + (
        f", {memory.cross_kv_bytes_per_token:,} for one of the encoder"
        if memory.cross_kv_bytes_per_token
        else ""
    )


def _bar(parts: Sequence[tuple[str, int]], limit: int) -> str:
    """Return letters in the shares of the parts, dots for what is free, `!` beyond the limit."""
    most = max(limit, sum(taken for _, taken in parts))
    cells, filled = "", 0
    for name, taken in parts:
        filled += taken
        cells = cells.ljust(round(filled / most * BAR_WIDTH), _LETTERS[name])
    cells = cells.ljust(BAR_WIDTH, ".")
    end = round(limit / most * BAR_WIDTH)
    return cells if end >= BAR_WIDTH else f"{cells[:end]}|{'!' * (BAR_WIDTH - end)}"
