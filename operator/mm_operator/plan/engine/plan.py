"""The plan of one engine: request, checks, limits, memory, pools, commands, documents, verdict."""

from collections.abc import Iterator
from dataclasses import dataclass

from mm_api.documents.model_plan import MemoryPlan, PlanWarning, Reason
from mm_api.documents.serving_plan import ServingPlan
from mm_api.evaluation import evaluation_cost
from mm_api.families import FAMILIES
from mm_api.families.family import Family
from mm_api.gateway_memory import gateway_bytes
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.errors import SpecError
from mm_operator.model import EnginePlan
from mm_operator.plan.engine.backend import Backend, BuildParts, Sizes
from mm_operator.plan.engine.backends import backend_of
from mm_operator.plan.engine.container_memory import PROCESS_BYTES, further_bytes
from mm_operator.plan.engine.documents import (
    build_plan,
    class_warnings,
    evaluation_warnings,
    serving_plan,
)
from mm_operator.plan.engine.encoders import check_encoder, check_vision
from mm_operator.plan.engine.request import Inputs, Target
from mm_operator.plan.engine.suggestions import size
from mm_operator.plan.engine.tables import release_of, table
from mm_operator.plan.engine.units import MIB


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


REFERENCE_RELEASE = "24.10"
"""Release of Triton 2.51, which the CPU image takes from nvidia-pytriton 0.7.0: its newest
wheel."""


def exposure_warnings(spec: MultimodalModelSpec, image: str | None) -> Iterator[PlanWarning]:
    """Yield who can reach which Triton; `image`: of the pods, None for the operator's own."""
    exposed = spec.runtime.triton.expose
    if exposed and spec.gateway.auth_secret_ref is not None:
        yield PlanWarning(
            code="TritonWithoutAuth",
            message="runtime.triton.expose publishes Triton without authentication, beside a "
            "gateway that requires tokens (gateway.authSecretRef): only runtime.triton.allowFrom "
            "limits its clients",
        )
    if not (spec.engine.traits.uses_triton or exposed):
        return
    release = release_of(image or "")
    if not spec.engine.traits.uses_trtllm and release is None and exposed:
        release = REFERENCE_RELEASE
    fixed: str = table("images")["triton"]["fixed"]
    if release is not None and release < fixed:
        yield PlanWarning(
            code="TritonOutdated",
            message=f"Triton {release} has published vulnerabilities: a client that reaches its "
            f"ports may run code (CVE-2025-23310, -23311, -23319, -23320, -23334; fixed in "
            f"{fixed}). Use an image of {fixed} or newer, or leave runtime.triton.expose false",
        )


def container_limit_warnings(
    spec: MultimodalModelSpec, plan: ServingPlan, memory: MemoryPlan
) -> Iterator[PlanWarning]:
    """Yield a warning for each memory limit of the spec that is below what is planned."""
    bounds = gateway_bytes(
        plan.gateway, encodes=plan.written_by_server, features_bytes=plan.features_bytes
    )
    stated = spec.gateway.resources.memory_limit
    if stated is not None and stated < bounds:
        yield PlanWarning(
            code="GatewayMemoryBelowBounds",
            message=f"gateway.resources.limits.memory is {spec.gateway.resources.limits['memory']}"
            f", but the gateway bounds bodies and decoders to {-(-bounds // MIB)}Mi together: "
            "large images of several clients may end the container, and every request in it. Raise "
            "the limit or leave it out, or lower gateway.maxImagePixels or gateway.maxImageBytes",
        )
    stated = spec.runtime.resources.memory_limit
    needed = memory.host.total_bytes + PROCESS_BYTES + further_bytes(spec)
    if stated is not None and stated < needed:
        yield PlanWarning(
            code="ServerMemoryBelowPlan",
            message=f"runtime.resources.limits.memory is {spec.runtime.resources.limits['memory']},"
            f" but weights, caches and processes are planned with {-(-needed // MIB)}Mi: the "
            "container may be ended while it loads. Raise the limit or leave it out",
        )


def family_of(name: str) -> Family:
    """Return the record of a family; SpecError: no such one, with a list of the known ones."""
    if name in FAMILIES:
        return FAMILIES[name]
    raise SpecError(
        reason="UnknownFamily",
        message=f"the checkpoint's family {name!r} is not known; known families: "
        f"{', '.join(sorted(FAMILIES))}",
    )
