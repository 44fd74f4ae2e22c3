"""Two plans of one model side by side, as lines of text."""

from collections.abc import Iterator

from mm_api.documents.model_plan import ModelPlan

_WIDTH = 26
_MIB = 1 << 20


def side_by_side(before: ModelPlan, after: ModelPlan) -> list[str]:
    """Return one line for each row; what is not planned is `-`, what differs has a mark."""
    left, right = dict(_rows(before)), dict(_rows(after))
    lines = []
    for name in dict.fromkeys((*left, *right)):
        one, other = left.get(name, "-"), right.get(name, "-")
        mark = " " if one == other else "*"
        lines.append(f"{mark} {name:<{_WIDTH}}{one:>22}{other:>22}")
    for plan in (before, after):
        lines += [f"  {plan.backend}: {error.path}: {error.message}" for error in plan.errors]
    return lines


def _rows(plan: ModelPlan) -> Iterator[tuple[str, str]]:
    """Yield names with values, in the order of the page of one plan."""
    yield "backend", plan.backend
    yield "TensorRT-LLM", plan.trtllm_version or "-"
    yield "dtype", plan.dtype or "-"
    yield "verdict", "Refused" if plan.errors else plan.fit.verdict if plan.fit else "-"
    if plan.limits is not None:
        for name, value in plan.limits.model_dump(by_alias=True).items():
            yield name, f"{value:,}"
    if plan.memory is not None and plan.memory.per_gpu:
        rank = plan.memory.per_gpu[0]
        for name, value in rank.model_dump(by_alias=True).items():
            if name.endswith("Bytes"):
                yield f"{name.removesuffix('Bytes')} MiB", f"{value / _MIB:,.0f}"
        yield "KV cache fraction", str(plan.memory.kv_cache_free_gpu_memory_fraction)
    yield "commands", str(len(plan.engines) + (plan.convert is not None))
