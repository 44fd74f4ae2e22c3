"""One engine, planned: the documents that Jobs and pods read, and the numbers behind them."""

from dataclasses import dataclass

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.model_plan import (
    EvaluationCost,
    Fit,
    MemoryPlan,
    PlanWarning,
    PoolPlan,
    Reason,
)
from mm_api.documents.serving_plan import ServingPlan
from mm_api.documents.trtllm_build import GpuModel


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """Everything that follows from a spec, a checkpoint, a GPU and an image.

    Limits, pools and commands are in the two documents and nowhere else.
    """

    build_plan: BuildPlan
    serving_plan: ServingPlan
    gpu: GpuModel | None
    """None: the engine uses none."""

    trtllm_version: str | None
    """None: the Reference engine."""

    memory: MemoryPlan
    pool: PoolPlan
    evaluation: EvaluationCost | None
    """Cost of the comparison with the checkpoint; None: pods are not compared."""

    fit: Fit
    reasons: tuple[Reason, ...]
    warnings: tuple[PlanWarning, ...]

    @property
    def fits(self) -> bool:
        return self.fit.verdict == "Fits"
