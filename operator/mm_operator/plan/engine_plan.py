"""The engine of a model, planned on what the cluster has: the plan, or what is wrong."""

from dataclasses import dataclass

from mm_api.conditions import Reason
from mm_api.documents.model_facts import ModelFacts
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator import names
from mm_operator.errors import SpecError
from mm_operator.model import EnginePlan, GpuNode, Snapshot
from mm_operator.plan.engine.gpu import admitted, choose_gpu, computes_on_gpu
from mm_operator.plan.engine.gpu_resource import is_shared, resource_of
from mm_operator.plan.engine.plan import Refusal, plan_engine
from mm_operator.plan.engine.request import Inputs
from mm_operator.plan.records import read_gpu
from mm_operator.plan.store import store_of
from mm_operator.plan.store_access import with_store_access

_CONDITION_REASONS = frozenset(
    {
        Reason.DOES_NOT_FIT,
        Reason.INVALID_SPEC,
        Reason.NOT_SUPPORTED,
        Reason.GPU_UNKNOWN,
        Reason.IMAGE_UNKNOWN,
    }
)
"""Codes that are reasons of the condition themselves; for any other it is InvalidSpec."""

_PATH = "spec.engine.parallelism"


@dataclass(frozen=True, slots=True)
class WantedEngine:
    """An engine that may be built, and the ConfigMap that models share about it."""

    plan: EnginePlan
    config: str


@dataclass(frozen=True, slots=True)
class PlannedEngine:
    """Either `wanted` or `problem`, or neither before the inspection."""

    plan: EnginePlan | None = None
    """Also of what does not fit."""

    wanted: WantedEngine | None = None
    problem: SpecError | None = None


def plan_for(snapshot: Snapshot, spec: MultimodalModelSpec, facts: ModelFacts) -> PlannedEngine:
    """Return what follows from one inspection."""
    try:
        planned = plan_engine(_inputs(snapshot, spec, facts))
    except SpecError as error:
        return PlannedEngine(problem=error)
    if isinstance(planned, Refusal):
        return PlannedEngine(problem=_joined(planned.problems))
    planned = with_store_access(planned, snapshot, spec)
    if not planned.fits:
        return PlannedEngine(planned, problem=SpecError(Reason.DOES_NOT_FIT, _too_big(planned)))
    if missing := node_problem(spec, snapshot.gpu_nodes, planned):
        return PlannedEngine(planned, problem=missing)
    config = names.engine_config(planned.build_plan.fingerprint, *store_of(spec).key)
    return PlannedEngine(planned, wanted=WantedEngine(planned, config))


def _inputs(snapshot: Snapshot, spec: MultimodalModelSpec, facts: ModelFacts) -> Inputs:
    if spec.runtime.gpu.device_class_name and snapshot.claims_missing:
        raise SpecError(
            Reason.NOT_SUPPORTED,
            f"no claims for devices can be made here: {snapshot.claims_missing}. Remove the field "
            "(GPUs are then requested as nvidia.com/gpu), or use Kubernetes 1.34 or newer",
            "spec.runtime.gpu.deviceClassName",
        )
    if spec.engine.parallelism.nodes > 1 and snapshot.groups_missing:
        raise SpecError(
            Reason.NOT_SUPPORTED,
            f"several nodes need LeaderWorkerSet: {snapshot.groups_missing}. Install it and set "
            "the chart's leaderWorkerSet.enabled, or set nodes to 1",
            f"{_PATH}.nodes",
        )
    settings = snapshot.settings
    traits = spec.engine.traits
    # The operator's own image of the Reference engine is not one of TensorRT-LLM.
    serving = spec.runtime.image if traits.runs_checkpoints else settings.server_image_of(spec)
    before = read_gpu(snapshot.observed.configs.get(names.facts_config(snapshot.name)))
    return Inputs(
        model=snapshot.name,
        spec=spec,
        facts=facts,
        builder_version=settings.builder_version,
        gpu=choose_gpu(spec, snapshot.gpu_nodes, before)
        if computes_on_gpu(spec, serving)
        else None,
        image=spec.build.image or settings.runtime_image,
        serving_image=serving,
        uid=snapshot.uid,
    )


def _joined(problems: tuple[SpecError, ...]) -> SpecError:
    """Return all problems as one, with the first one's reason; a field only where it is alone."""
    first, *others = problems
    known = first.reason in _CONDITION_REASONS
    reason = first.reason if known else Reason.INVALID_SPEC
    if others:
        return SpecError(reason, "\n".join(f"{one} ({one.reason})" for one in problems))
    return SpecError(
        reason, first.message if known else f"{first.message} ({first.reason})", first.path
    )


def _too_big(planned: EnginePlan) -> str:
    """Return the verdict and what would fit instead."""
    fit = planned.fit
    ways = [
        " and ".join(f"{change.path} {change.suggested}" for change in suggestion.changes)
        + f" (leaves {suggestion.free_bytes:,} bytes free)"
        for suggestion in fit.suggestions
    ]
    if ways:
        return f"{fit.message}; it would fit with {', or with '.join(ways)}"
    if planned.gpu is None:
        return fit.message
    return f"{fit.message}; no smaller limits, quantization or GPUs in parallel would fit"


def node_problem(
    spec: MultimodalModelSpec, nodes: tuple[GpuNode, ...] | None, planned: EnginePlan
) -> SpecError | None:
    """Return why the ranks of a pod have no node; None: one may hold them, or is not known.

    Nodes without a count, and a product that no node has today, prove nothing: an autoscaler may
    bring one.
    """
    ranks = len(planned.memory.per_gpu) // spec.engine.parallelism.nodes
    if planned.gpu is None or ranks < 2:  # noqa: PLR2004  # a GPU of its own is on every such node
        return None
    product, resource = planned.gpu.product, resource_of(spec)
    having = [node for node in admitted(spec, nodes) if node.product == product]
    if any(is_shared(resource, node) for node in having):
        return SpecError(
            Reason.NOT_SUPPORTED,
            f"{ranks} ranks need {ranks} GPUs, and those of {product} are shared: two of one pod "
            "may be turns of the same GPU. Use nodes whose GPUs are not shared "
            "(spec.runtime.nodeSelector), or 1 rank",
            _PATH,
        )
    counts = [node.count for node in having if node.count is not None]
    if not counts or len(counts) < len(having) or max(counts) >= ranks:
        return None
    return SpecError(
        Reason.NOT_SUPPORTED,
        f"{ranks} ranks run in one pod, and no node has more than {max(counts)} GPUs of {product} "
        "(label nvidia.com/gpu.count): lower tensor x pipeline to that, raise nodes, or add a "
        "larger node; a "
        "spec.runtime.nodeSelector that only nodes to come have allows for those",
        _PATH,
    )
