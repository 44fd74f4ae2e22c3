"""What an engine computes in: the family's rule, the GPU's abilities and the table's type."""

from mm_api.documents.model_plan import Reason
from mm_api.documents.trtllm_build import GpuModel
from mm_api.families.family import Family, Kind
from mm_operator.errors import SpecError
from mm_operator.plan.engine.tables import table, version_of

BFLOAT16_SINCE = (8, 0)
FP8_SINCE = (8, 9)


def capability(gpu: GpuModel) -> tuple[int, int]:
    """Return the compute capability as two numbers. SpecError: not of the form 9.0."""
    major, dot, minor = gpu.compute_capability.partition(".")
    if not (dot and major.isdigit() and minor.isdigit()):
        raise SpecError(
            "ComputeCapability",
            f"{gpu.compute_capability!r} is not a compute capability: write 9.0",
        )
    return int(major), int(minor)


def choose_dtype(requested: str, family: Family, gpu: GpuModel, version: str) -> tuple[str, Reason]:
    """Return the engine's dtype and why; SpecError: family, GPU or prompt table rule it out."""
    path = "spec.engine.dtype"
    allowed = [dtype for dtype in family.dtypes if _gpu_has(dtype, gpu)]
    if requested != "Auto" and requested not in family.dtypes:
        raise SpecError(
            "DtypeNotSupported",
            f"{family.name} engines cannot be {requested} ({family.dtype_reason}): use "
            f"{' or '.join(family.dtypes)}",
            path,
        )
    if not allowed or (requested != "Auto" and requested not in allowed):
        other = f"use {' or '.join(allowed)}, or another GPU" if allowed else "use another GPU"
        raise SpecError(
            "DtypeNeedsGpu",
            f"{requested if requested != 'Auto' else family.dtypes[0]} needs compute capability "
            f"8.0, and {gpu.product} has {gpu.compute_capability}: {other}",
            path,
        )
    chosen = allowed[0] if requested == "Auto" else requested
    fixed = version_of(version) < version_of(table("tools")["tableDtypeKeySince"])
    if family.kind is Kind.PROMPT_TABLE and fixed and chosen != "float16":
        raise SpecError(
            "TableDtype",
            f"TensorRT-LLM {version}'s prompt table is FP16 and must have the engine's type: use "
            f"float16, or an image with {table('tools')['tableDtypeKeySince']} or newer",
            path,
        )
    reason = f"as written in {path}" if requested != "Auto" else family.dtype_reason
    return chosen, Reason(field="dtype", value=chosen, reason=reason)


def _gpu_has(dtype: str, gpu: GpuModel) -> bool:
    return dtype != "bfloat16" or capability(gpu) >= BFLOAT16_SINCE
