"""Documents that the operator keeps in ConfigMaps, read back as values.

A document that is damaged or missing reads as None: the decision is then made as if it had never
been written, and writing it again repairs it.

Never a pod template: a client that may write ConfigMaps must not decide what runs. A held
revision's template is that of the live Deployment.
"""

from dataclasses import astuple, fields
from hashlib import sha256
from typing import TypeVar

from pydantic import AwareDatetime, Field, ValidationError

from mm_api.base import ApiModel, Document
from mm_api.contract import PLAN_FILE
from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildResult
from mm_api.documents.model_facts import InspectResult, ModelFacts
from mm_api.documents.trtllm_build import GpuModel
from mm_operator.model import Builder, ConfigState
from mm_operator.plan.engine.documents import fingerprint_of

FACTS_KEY = "facts.json"
INSPECTION_KEY = "inspection.json"
GPU_KEY = "gpu.json"
"""The GPU that the model was last planned for, beside what its inspection found."""

RESULT_KEY = "result.json"
ENGINE_KEY = "engine"
"""Name of the ConfigMap of the engine that a revision serves."""

CLAIMS_KEY = "resource-claim-templates"
"""Names of what a revision's pods claim devices by, joined by commas."""

BUILDER_KEY = "builder"
"""Whose Job built the engine: namespace, name and uid of the model, with slashes between."""

BUILT_AT_KEY = "built-at"
DAMAGE_KEY = "damage.json"

_GPU_MEMORY_BYTES_MAX = 1 << 40
"""Memory of one GPU: 1 TiB, above three times the largest of `data/gpus.yaml`."""

A = TypeVar("A", bound=ApiModel)
D = TypeVar("D", bound=Document)


class Inspection(Document):
    """What an inspection was made from, and when."""

    format_version: int = Field(default=1, ge=1, le=1)
    inputs_hash: str
    round: int = Field(ge=0, description="Times the source changed between inspection and build.")
    inspected_at: AwareDatetime


class _RecordedGpu(GpuModel):
    """A GPU within the bounds of `spec.runtime.gpu`: a tenant may write into the ConfigMap."""

    product: str = Field(pattern=r"^[-._a-zA-Z0-9]+$", max_length=63)
    memory_bytes: int = Field(ge=1, le=_GPU_MEMORY_BYTES_MAX)
    compute_capability: str = Field(pattern=r"^[0-9]{1,2}\.[0-9]$", max_length=4)


def parse(kind: type[D], text: str | None) -> D | None:
    """Return the document, or None when the text is missing or is no such document."""
    if not text:
        return None
    try:
        return kind.from_json(text)
    except ValidationError:
        return None


def understood(kind: type[A], part: object) -> A | None:
    """Return a part of a status; None when it is absent or of a version that wrote another."""
    try:
        return kind.model_validate(part)
    except ValidationError:
        return None


def read_inspection(config: ConfigState | None) -> tuple[Inspection, ModelFacts] | None:
    if config is None:
        return None
    inspection = parse(Inspection, config.data.get(INSPECTION_KEY))
    facts = parse(ModelFacts, config.data.get(FACTS_KEY))
    return (inspection, facts) if inspection and facts else None


def read_gpu(config: ConfigState | None) -> GpuModel | None:
    """Return the GPU that the model was last planned for.

    None when none is recorded, or when the record is beyond the bounds of `spec.runtime.gpu`.
    """
    recorded = parse(_RecordedGpu, config.data.get(GPU_KEY)) if config else None
    return GpuModel(**recorded.model_dump()) if recorded else None


def read_build_plan(config: ConfigState | None, fingerprint: str) -> BuildPlan | None:
    """Return the recorded plan when it is the plan of this fingerprint, which is computed again."""
    plan = parse(BuildPlan, config.data.get(PLAN_FILE)) if config else None
    return plan if plan and fingerprint_of(plan) == plan.fingerprint == fingerprint else None


def written_plan(plan: BuildPlan) -> str:
    """Return a plan as it is recorded, and as its Job reads it: every byte counts."""
    return plan.to_json(indent=2)


def plan_digest(plan: BuildPlan) -> str:
    """Return the SHA-256 of a recorded plan, 64 hex digits: the Job runs no other one."""
    return sha256(written_plan(plan).encode()).hexdigest()


def successful(text: str | None, fingerprint: str) -> BuildResult | None:
    """Return the result of a build that made this engine, or None."""
    result = parse(BuildResult, text)
    made = result and result.failure is None and result.fingerprint == fingerprint
    return result if made else None


def read_builder(config: ConfigState) -> Builder | None:
    parts = config.data.get(BUILDER_KEY, "").split("/")
    return Builder(*parts) if len(parts) == len(fields(Builder)) else None


def written_builder(builder: Builder) -> str:
    return "/".join(astuple(builder))


def read_inspect_result(text: str) -> InspectResult | None:
    """Return what an inspect Job reported: facts or an error, never neither."""
    result = parse(InspectResult, text)
    return result if result and (result.facts or result.error) else None
