"""The plan of one engine: request, checks, limits, memory, pools, commands, documents, verdict."""

from collections.abc import Iterator
from dataclasses import dataclass

from mm_api.documents.model_plan import Reason
from mm_api.evaluation import evaluation_cost
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.errors import SpecError
from mm_operator.model import EnginePlan
from mm_operator.plan.engine.backend import Backend, BuildParts, Sizes
from mm_operator.plan.engine.backends import backend_of
from mm_operator.plan.engine.documents import build_plan, serving_plan
from mm_operator.plan.engine.encoders import check_encoder, check_vision
from mm_operator.plan.engine.evaluation import class_warnings, evaluation_warnings
from mm_operator.plan.engine.family import family_of
from mm_operator.plan.engine.plan_warnings import container_limit_warnings, exposure_warnings
from mm_operator.plan.engine.request import Inputs, Target
from mm_operator.plan.engine.sizes import size


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no plan: everything that is wrong, in the order of the checks."""

    problems: tuple[SpecError, ...]
    trtllm_version: str | None = None
    """None: it is not known, or TensorRT-LLM is not used."""


def plan_engine(inputs: Inputs) -> EnginePlan | Refusal:
    """Return the plan, also of an engine that does not fit, or what is wrong."""
    try:
        family = family_of(inputs.facts.family)
        backend = backend_of(inputs)
    except SpecError as error:
        return Refusal((error,))
    target = Target(inputs.model, inputs.spec, inputs.facts, family)
    request = backend.request(target)
    problems = [*backend.problems(target, request), *check_vision(inputs.spec, inputs.facts)]
    try:
        sizes = size(target, request, backend)
        problems += backend.late_problems(sizes)
        problems += check_encoder(sizes.memory.encoder, inputs.spec.vision)
        if problems:
            return Refusal(tuple(problems), backend.trtllm_version)
        parts = backend.build_parts(target, sizes)
    except SpecError as error:
        return Refusal((*problems, error), backend.trtllm_version)
    return _planned(inputs, target, backend, sizes, parts)


def _planned(
    inputs: Inputs,
    target: Target,
    backend: Backend,
    sizes: Sizes,
    parts: BuildParts,
) -> EnginePlan:
    build = build_plan(
        target,
        sizes,
        parts,
        vision_engine=backend.vision_engine,
        gpu=backend.gpu,
        builder_version=inputs.builder_version,
    )
    own = backend.serving_parts(target, sizes)
    serving = serving_plan(target, sizes, own, fingerprint=build.fingerprint, uid=inputs.uid)
    cost = evaluation_cost(build.engine, inputs.facts)
    return EnginePlan(
        build_plan=build,
        serving_plan=serving,
        gpu=backend.gpu,
        trtllm_version=backend.trtllm_version,
        memory=sizes.memory,
        pool=sizes.pools.cuda,
        evaluation=cost,
        fit=backend.fit(target, sizes),
        reasons=(*backend.reasons(sizes), *own.reasons, *_turns(inputs.spec)),
        warnings=(
            *exposure_warnings(inputs.spec, backend.serving_image),
            *container_limit_warnings(inputs.spec, serving, sizes.memory),
            *class_warnings(inputs.facts),
            *evaluation_warnings(cost, inputs.spec),
            *own.warnings,
        ),
    )


def _turns(spec: MultimodalModelSpec) -> Iterator[Reason]:
    if slot := spec.runtime.gpu.slot:
        why = "its models run one at a time: what the largest of them takes is enough for all"
        yield Reason(field="runtime.gpu.slot", value=slot, reason=why)
