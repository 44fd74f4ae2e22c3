"""What the checks of a request see, and how they report what they find."""

from dataclasses import dataclass

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.trtllm_build import GpuModel
from mm_api.families.family import Family
from mm_operator.errors import SpecError
from mm_operator.plan.engine.request import PlanRequest


@dataclass(frozen=True, slots=True)
class Case:
    """A request for an engine of one checkpoint, on one GPU, by one version of TensorRT-LLM."""

    request: PlanRequest
    facts: ModelFacts
    family: Family
    gpu: GpuModel
    version: str
    model: str
    """Its name, by which servers know it."""


def plan_error(path: str, code: str, message: str) -> SpecError:
    """Return an error at a field below `spec`; an empty path is the resource itself."""
    return SpecError(code, message, f"spec.{path}" if path else "")
