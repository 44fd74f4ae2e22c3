"""The plan of a model on whichever backend: the documents, the verdict, or what is wrong."""

from dataclasses import dataclass

from pydantic import ValidationError

from mm_api.conditions import Reason
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import ModelPlan, PlanError
from mm_api.documents.trtllm_build import GpuModel
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.errors import SpecError
from mm_operator.model import Choice, Snapshot
from mm_operator.plan.draft import Draft, engine_config
from mm_operator.plan.engine import gpu
from mm_operator.plan.engine.encoders import with_key
from mm_operator.plan.engine.family import family_of
from mm_operator.plan.engine.model_plan import Inputs, plan_model
from mm_operator.plan.engine.reference import plan_reference

_KEPT_REASONS = frozenset(
    {
        Reason.DOES_NOT_FIT,
        Reason.INVALID_SPEC,
        Reason.NOT_SUPPORTED,
        Reason.GPU_UNKNOWN,
        Reason.IMAGE_UNKNOWN,
    }
)
"""Codes that are reasons of the condition themselves; any other is told as InvalidSpec."""


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """Either `draft` or `problem`; `sizes` are the numbers, also of what does not fit."""

    draft: Draft | None
    problem: SpecError | None
    sizes: ModelPlan | None


def plan_engine(snapshot: Snapshot, spec: MultimodalModelSpec, facts: ModelFacts) -> EnginePlan:
    """Return what follows from one inspection."""
    try:
        sizes = _sizes(snapshot, spec, facts)
    except SpecError as problem:
        return EnginePlan(None, problem, None)
    if sizes.errors:
        return EnginePlan(None, _problem(sizes.errors), None)
    family = family_of(facts.family)
    if family.unserved and not family.is_served(spec.engine.backend):
        return EnginePlan(None, SpecError(Reason.NOT_SUPPORTED, family.unserved.instead), sizes)
    if sizes.fit and sizes.fit.verdict == "DoesNotFit":
        return EnginePlan(None, SpecError(Reason.DOES_NOT_FIT, _too_big(sizes)), sizes)
    return EnginePlan(_draft(spec, sizes, snapshot.uid), None, sizes)


def recorded_gpu(snapshot: Snapshot) -> GpuModel | None:
    """Return the GPU of the last plan, as the status has it."""
    recorded = snapshot.status.get("plan", {}).get("gpu")
    try:
        return GpuModel.model_validate(recorded) if recorded else None
    except ValidationError:
        return None


def _sizes(snapshot: Snapshot, spec: MultimodalModelSpec, facts: ModelFacts) -> ModelPlan:
    settings = snapshot.settings
    if spec.engine.backend == "Reference":
        return plan_reference(
            model=snapshot.name, spec=spec, facts=facts, builder_version=settings.builder_version
        )
    return plan_model(
        Inputs(
            model=snapshot.name,
            spec=spec,
            facts=facts,
            gpu=gpu.choose_gpu(spec, snapshot.gpu_nodes, recorded_gpu(snapshot)),
            image=spec.build.image or settings.runtime_image,
            given_version=None,
            backend=spec.engine.backend,
            builder_version=settings.builder_version,
            serving_image=spec.runtime.image or settings.runtime_image,
        )
    )


def _problem(errors: list[PlanError]) -> SpecError:
    """Return every error as one: the first one's reason, and its field when it is alone."""
    first, *others = errors
    if not others and first.code in _KEPT_REASONS:
        return SpecError(first.code, first.message, first.path)
    told = "\n".join(
        f"{error.path}: {error.message} ({error.code})".removeprefix(": ") for error in errors
    )
    return SpecError(Reason.INVALID_SPEC, told)


def _too_big(sizes: ModelPlan) -> str:
    """Return the verdict and what would fit instead."""
    assert sizes.fit is not None  # noqa: S101  # asked by the caller
    ways = [
        " and ".join(f"{change.path} {change.suggested}" for change in suggestion.changes)
        + f" (leaves {suggestion.free_bytes:,} bytes free)"
        for suggestion in sizes.fit.suggestions
    ]
    if ways:
        return f"{sizes.fit.message}; it would fit with {', or with '.join(ways)}"
    if sizes.backend == "Reference":
        return sizes.fit.message
    return f"{sizes.fit.message}; no smaller limits, quantization or GPUs in parallel would fit"


def _draft(spec: MultimodalModelSpec, sizes: ModelPlan, uid: str) -> Draft:
    assert sizes.build_plan is not None  # noqa: S101  # set in every plan that has no errors
    assert sizes.serving_plan is not None  # noqa: S101  # likewise
    return Draft(
        build_plan=sizes.build_plan,
        serving_plan=with_key(sizes.serving_plan, uid),
        engine_config=engine_config(spec, sizes.build_plan.fingerprint),
        choices=tuple(Choice(one.field, one.value, one.reason) for one in sizes.reasons),
    )
