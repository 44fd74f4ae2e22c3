"""The complete status of a model, computed once at the end of a reconcile, also after an error."""

from typing import Any

from mm_api import labels
from mm_api.documents.build_result import BuildProgress
from mm_api.modalities import planned
from mm_api.v1alpha1 import BuildStatus, MemoryStatus, PlanStatus
from mm_operator import names
from mm_operator.digests import plain
from mm_operator.model import BuildDecision, EnginePlan, Outcome, Plan, Snapshot, Step
from mm_operator.status.conditions import set_conditions, timestamp
from mm_operator.status.encoders import encoders_summary
from mm_operator.status.evaluation import evaluation_summary
from mm_operator.status.model_conditions import conditions
from mm_operator.status.scaling import scaling_summary

_MESSAGE_LIMIT = 1024
"""Characters: as many as the API takes in a short text; the condition holds the rest."""

_PLANNED = ("plan", "build")
"""Parts of the status that follow from a plan."""

_PERCENT_STEP = 5
"""A step's percentage is reported in steps of this: each change is a write of the status."""

SELECTOR = f"{labels.MODEL}={{model}},{labels.APP_COMPONENT}={labels.Component.SERVER}"


def derive(snapshot: Snapshot, plan: Plan, outcome: Outcome) -> dict[str, Any]:
    """Return the status to write, in camelCase. Equal inputs give an equal status.

    A frozen plan knows nothing about engine and pods, so the summaries stay as they were.
    """
    deployment = snapshot.observed.deployment
    status: dict[str, Any] = {
        "observedGeneration": snapshot.generation,
        "conditions": set_conditions(
            snapshot.status.get("conditions", ()),
            conditions(snapshot, plan, outcome),
            generation=snapshot.generation,
            now=snapshot.now,
        ),
        "replicas": deployment.replicas if deployment else 0,
        "readyReplicas": deployment.ready if deployment else 0,
        "readyOfWanted": _ready_of_wanted(snapshot),
        "selector": SELECTOR.format(model=snapshot.name),
    }
    served = plan.rollout.serving_hash or plan.rollout.held
    if served or (plan.frozen and snapshot.status.get("url")):
        status["url"] = url(snapshot)
    return (
        status
        | encoders_summary(snapshot)
        | _summaries(snapshot, plan)
        | evaluation_summary(snapshot, plan)
        | scaling_summary(snapshot)
        | _rollout_summary(snapshot, plan)
    )


def _rollout_summary(snapshot: Snapshot, plan: Plan) -> dict[str, Any]:
    """Return the canary's state; what was sent back stays known while nothing is decided."""
    canary, spec = plan.rollout.canary, snapshot.spec
    if canary is not None:
        return {"rollout": plain(canary.status)}
    undecided = plan.frozen or (plan.rollout.held and spec and spec.rollout.canary is not None)
    before = snapshot.status.get("rollout")
    return {"rollout": before} if undecided and before else {}


def _ready_of_wanted(snapshot: Snapshot) -> str:
    deployment, spec = snapshot.observed.deployment, snapshot.spec
    wanted = spec.replicas if spec else deployment.wanted if deployment else 0
    return f"{deployment.ready if deployment else 0}/{wanted}"


def url(snapshot: Snapshot) -> str:
    """Return the base URL for OpenAI clients inside the cluster."""
    return f"http://{names.deployment(snapshot.name)}.{snapshot.namespace}.svc/v1"


def _summaries(snapshot: Snapshot, plan: Plan) -> dict[str, Any]:
    if plan.frozen:
        return {key: snapshot.status[key] for key in _PLANNED if key in snapshot.status}
    summaries: dict[str, Any] = {}
    if plan.engine is not None:
        summaries["plan"] = plain(plan_summary(plan.engine, plan.rollout.serving_hash))
    if plan.build_plan is not None:
        summaries["build"] = plain(_build_summary(snapshot, plan, plan.build_plan.fingerprint))
    return summaries


def _build_summary(snapshot: Snapshot, plan: Plan, fingerprint: str) -> BuildStatus:
    build, progress = plan.build, plan.build.progress
    result = build.result
    failure = result.failure if result else None
    before = snapshot.status.get("build", {})
    if before.get("fingerprint") != fingerprint:
        before = {}
    return BuildStatus(
        fingerprint=fingerprint,
        phase=build.phase,
        step=progress.step or None if progress else None,
        progress=_how_far(progress),
        # The Job goes once its result is recorded; what it was stays known.
        started_at=timestamp(build.started_at) if build.started_at else before.get("startedAt"),
        job_name=build.job or before.get("jobName"),
        message=plan.build.message.split("\n", 1)[0][:_MESSAGE_LIMIT],
        reused_from=_reused_from(snapshot, build),
        attempts=build.attempt if build.job else before.get("attempts"),
        manifest_sha256=result.manifest_sha256 if result else None,
        step_seconds=_step_seconds(build, before.get("stepSeconds")),
        stored_bytes=result.stored_bytes if result else None,
        failed_step=failure.step if failure else None,
        exit_code=failure.exit_code if failure else None,
    )


def _how_far(progress: BuildProgress | None) -> str | None:
    if progress is None or not progress.number:
        return None
    steps = f"{progress.number} of {progress.of}"
    if progress.percent is None:
        return steps
    done = f"{steps}, {progress.percent // _PERCENT_STEP * _PERCENT_STEP} %"
    if progress.total_bytes is None:
        return done
    return f"{done} of {progress.total_bytes / (1 << 30):.1f} GiB"


def _reused_from(snapshot: Snapshot, build: BuildDecision) -> str | None:
    """Return who built the engine when it was not this model."""
    if build.step is not Step.DONE or build.result is None:
        return None
    if build.builder and build.builder.uid != snapshot.uid:
        return str(build.builder)
    return "store" if build.result.reused else None


def _step_seconds(build: BuildDecision, before: dict[str, float] | None) -> dict[str, float] | None:
    """Return what the finished steps took, as the newest source reports that has any."""
    reported = build.result.step_seconds if build.result else {}
    if not reported and build.progress:
        reported = build.progress.step_seconds
    return dict(reported) or before


_WARNINGS = 16
"""As many as the status holds."""


_COLUMN_DIGITS = 12
"""`kubectl get -o wide` stays below 160 columns with them, and they distinguish all there is."""


def plan_summary(plan: EnginePlan, serving_hash: str) -> PlanStatus:
    """Return the summary; `serving_hash` is empty while nothing may be served."""
    facts, engine, memory, fit = (
        plan.build_plan.facts,
        plan.build_plan.engine,
        plan.memory,
        plan.fit,
    )
    on_gpu = bool(memory.per_gpu)
    return PlanStatus(
        family=facts.family,
        dtype=engine.dtype,
        trtllm_version=plan.trtllm_version,
        source_digest=facts.source_digest,
        source_revision=facts.source_revision,
        fingerprint=plan.build_plan.fingerprint,
        short_fingerprint=plan.build_plan.fingerprint[:_COLUMN_DIGITS],
        serving_hash=serving_hash or None,
        short_serving_hash=serving_hash[:_COLUMN_DIGITS] or None,
        parameters=facts.parameters,
        features_per_image=engine.vision.features_per_image if engine.vision else None,
        input_modalities=planned(plan.build_plan, plan.serving_plan.gateway),
        max_concurrency=plan.serving_plan.gateway.max_concurrency,
        limits=engine.limits,
        gpu=plan.gpu,
        memory=_memory(plan),
        server_limit_bytes=memory.host.planned_limit_bytes,
        encoder_memory=memory.encoder,
        gpu_memory=memory.per_gpu,
        kv_cache_free_gpu_memory_fraction=(
            memory.kv_cache_free_gpu_memory_fraction if on_gpu else None
        ),
        cross_kv_cache_fraction=memory.cross_kv_cache_fraction,
        pool=plan.pool,
        evaluation=plan.evaluation,
        fits=plan.fits,
        verdict=fit.verdict,
        short_bytes=fit.short_bytes or None,
        largest_term=fit.largest_term,
        suggestions=fit.suggestions,
        warnings=[warning.message for warning in plan.warnings][:_WARNINGS],
    )


def _memory(plan: EnginePlan) -> MemoryStatus:
    """Return the terms of one replica: of its GPUs together, or of host memory."""
    memory = plan.memory
    parts: list[Any] = [*memory.per_gpu] or [memory.host]
    gpus, vision = memory.per_gpu, ("vision_engine_bytes", "vision_activation_bytes")
    terms = {"pinned_pool_bytes": memory.pinned_pool_bytes, "shm_bytes": memory.shm_bytes}
    terms |= {
        f"{name}_bytes": sum(getattr(one, f"{name}_bytes") for one in parts)
        for name in ("weights", "prompt_table", "kv_cache")
    }
    if not gpus:
        terms |= {"vision_bytes": memory.host.vision_bytes, "cuda_pool_bytes": plan.pool.bytes}
    else:
        terms["vision_bytes"] = sum(getattr(gpu, name) for gpu in gpus for name in vision)
        for name in ("cuda_pool_bytes", "context_bytes", "other_bytes"):
            terms[name] = sum(getattr(gpu, name) for gpu in gpus)
    return MemoryStatus(**terms, total_bytes=sum(terms.values()))
