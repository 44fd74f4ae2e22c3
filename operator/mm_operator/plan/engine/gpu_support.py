"""Which GPUs a version of TensorRT-LLM runs on: #gpus of docs/design/planning-sources.md."""

from collections.abc import Iterator
from typing import Any

from mm_api.documents.model_plan import PlanWarning
from mm_api.documents.trtllm_build import GpuModel
from mm_operator.errors import SpecError
from mm_operator.plan.engine.checks import Case, plan_error
from mm_operator.plan.engine.dtypes import capability
from mm_operator.plan.engine.tables import era, table, version_of


def check_gpu(now: Case) -> Iterator[SpecError]:
    """Yield an error for a GPU that the version's TensorRT has no code for: builds would fail."""
    row = _row(now.version)
    try:
        own = capability(now.gpu)
    except SpecError:
        return  # the choice of a dtype reports it
    least, most = tuple(row["least"]), tuple(row["most"])
    if least <= own <= most:
        return
    newer = " or a newer image" if own > most else ""
    yield plan_error(
        "runtime.gpu.product",
        "GpuNotSupported",
        f"TensorRT-LLM {now.version} has no code for compute capability "
        f"{now.gpu.compute_capability} of {now.gpu.product}: use a GPU of "
        f"{_listed(row)}{newer}",
    )


def gpu_warnings(gpu: GpuModel, version: str) -> Iterator[PlanWarning]:
    """Yield a warning for a GPU that is in none of the version's support matrices."""
    row = _row(version)
    if list(capability(gpu)) not in row["listed"]:
        yield PlanWarning(
            code="GpuNotListed",
            message=f"upstream's support matrix for TensorRT-LLM {version} lists compute "
            f"capabilities {_listed(row)}, and {gpu.product} has {gpu.compute_capability}: the "
            "build may fail",
        )


def _row(version: str) -> dict[str, Any]:
    return era(table("tools")["gpus"], version_of(version))


def _listed(row: dict[str, Any]) -> str:
    return ", ".join(f"{major}.{minor}" for major, minor in row["listed"])
