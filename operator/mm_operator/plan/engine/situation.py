"""What the checks of a plan look at, and how they tell what they found."""

from dataclasses import dataclass

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import PlanError
from mm_api.documents.trtllm_build import GpuModel
from mm_api.families.family import Family
from mm_operator.plan.engine.request import Ask


@dataclass(frozen=True, slots=True)
class Situation:
    """What the checks look at."""

    ask: Ask
    facts: ModelFacts
    family: Family
    backend: str
    gpu: GpuModel
    version: str
    gpu_count: int
    """GPUs of a pod as the spec says; 0: it says nothing."""
    family_asked: str | None
    allow_pickle: bool


def plan_error(path: str, code: str, message: str) -> PlanError:
    """Return an error at a field below `spec`; an empty path is the resource itself."""
    return PlanError(path=f"spec.{path}" if path else "", code=code, message=message)
