"""The complete plan of one reconcile: every stage in order, each in its own module."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from mm_api import labels
from mm_api.conditions import Reason
from mm_api.contract import PLAN_FILE
from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildResult
from mm_api.v1alpha1 import MultimodalModelSpec, duration
from mm_operator import names
from mm_operator.errors import SpecError
from mm_operator.model import (
    BuildDecision,
    EngineState,
    GarbageCollection,
    InspectDecision,
    JobPhase,
    JobState,
    Plan,
    PodState,
    Ref,
    RolloutDecision,
    Snapshot,
    Step,
)
from mm_operator.plan.adapters import access_problem
from mm_operator.plan.build import decide_build
from mm_operator.plan.damage import found_damage, pods_to_restart
from mm_operator.plan.engine_plan import PlannedEngine, WantedEngine, plan_for
from mm_operator.plan.inspection import decide_inspect
from mm_operator.plan.jobs import attempt_of, job_inputs, latest
from mm_operator.plan.records import parse
from mm_operator.plan.retention import kept, released
from mm_operator.plan.rollout import decide_rollout, still_rolls_by_turns
from mm_operator.plan.store_access import store_problem

JOINING_SECONDS = 3.0
"""Longer than a joint write of several models' owners takes, short beside any build."""

CLAIM_SECONDS = 30.0
"""Claims of users are not watched; as long as one without a volume is believed."""


def decide(snapshot: Snapshot) -> Plan:
    """Return every decision about one model."""
    if snapshot.deleting:
        return _frozen(snapshot, SpecError(Reason.DELETING, "the model is being deleted"))
    problem = snapshot.spec_error
    if snapshot.spec is not None:
        problem = access_problem(snapshot.spec)
        if problem is None:
            refused = store_problem(snapshot, snapshot.spec)
            if refused:
                return replace(_frozen(snapshot, refused), recheck_after=CLAIM_SECONDS)
            return _decide(snapshot, snapshot.spec)
    unread = SpecError(Reason.INVALID_SPEC, "the spec cannot be read")
    return _frozen(snapshot, problem or unread)


def _decide(snapshot: Snapshot, spec: MultimodalModelSpec) -> Plan:
    inspect = decide_inspect(snapshot, spec, stale=False)
    engine, build = _engine(snapshot, spec, inspect)
    if build.stale_source:
        inspect = decide_inspect(snapshot, spec, stale=True)
        if inspect.step is Step.DONE:
            engine, build = _engine(snapshot, spec, inspect)
    wanted = engine.wanted
    config = wanted.config if wanted else ""
    rollout = decide_rollout(snapshot, spec, wanted, build)
    built = build.step is Step.DONE
    sweep = decide_garbage_collection(snapshot, spec) if built else GarbageCollection()
    delays = (
        sweep.due_in,
        inspect.retry_in,
        build.retry_in,
        _own_write(inspect, build),
        _unheard(snapshot, wanted),
        rollout.canary.look_in if rollout.canary else None,
    )
    return Plan(
        inspect=inspect,
        build=build,
        rollout=rollout,
        problem=engine.problem,
        engine=engine.plan,
        garbage_collection=sweep,
        engine_config=config,
        keep=kept(snapshot, inspect, build, rollout, sweep),
        pods_to_restart=replaced(snapshot)
        | (pods_to_restart(snapshot, config, build) if wanted else frozenset()),
        release=released(snapshot, config, rollout),
        recheck_after=min((delay for delay in delays if delay is not None), default=None),
    )


def _own_write(inspect: InspectDecision, build: BuildDecision) -> float | None:
    """Return 0 when this reconcile writes what the next one waits for: no event may come of it.

    That is a plan whose Job needs the uid of its ConfigMap, and a Job that goes once what it found
    is recorded.
    """
    unwritten = build.step is Step.WAITING and build.reason == Reason.BUILD_PENDING
    recorded = any(stage.step is Step.DONE and stage.job for stage in (inspect, build))
    return 0.0 if unwritten or recorded else None


def _unheard(snapshot: Snapshot, wanted: WantedEngine | None) -> float | None:
    """Return a delay while this model does not own its engine yet.

    What happens to a shared engine is reported to its owners; a model that is about to join them
    would miss the end of the build.
    """
    if wanted is None or wanted.config in snapshot.observed.owned_engines:
        return None
    return JOINING_SECONDS if wanted.config in snapshot.observed.engines else None


def _engine(
    snapshot: Snapshot, spec: MultimodalModelSpec, inspect: InspectDecision
) -> tuple[PlannedEngine, BuildDecision]:
    """Return what follows from one inspection."""
    facts = inspect.facts
    planned = plan_for(snapshot, spec, facts) if facts else PlannedEngine()
    wanted = planned.wanted
    name = wanted.config if wanted else ""
    state = snapshot.observed.engines.get(name, EngineState())
    terms = job_inputs(spec, snapshot.settings, snapshot.uid)
    found = found_damage(snapshot, name)
    build = decide_build(wanted, state, inspect, terms, snapshot.now, found=found)
    if wanted is not None:
        build = with_match(build, wanted.plan.build_plan, name)
    return planned, build


def _frozen(snapshot: Snapshot, problem: SpecError) -> Plan:
    """Return the plan that changes nothing: whatever serves keeps serving, and what rolls rolls."""
    return Plan(
        inspect=InspectDecision(Step.WAITING, problem.reason, str(problem)),
        build=BuildDecision(Step.WAITING, Reason.WAITING_FOR_PLAN, "the plan comes first"),
        rollout=RolloutDecision(
            Step.WAITING,
            problem.reason,
            "nothing is changed",
            by_turns=still_rolls_by_turns(snapshot.observed.deployment),
        ),
        problem=problem,
        frozen=True,
    )


STARTS = 2
"""Starts of a container that fail before its pod is replaced: the GPU may have come back meanwhile,
and the back-off of the kubelet (10 s after the first) bounds how often pods are made."""


def replaced(snapshot: Snapshot) -> frozenset[Ref]:
    """Return the model's pods that are deleted for want of a GPU; their Deployments make others."""
    pods = snapshot.observed.every_pod
    return frozenset(Ref("Pod", pod.name) for pod in pods if is_stuck(pod))


def is_stuck(pod: PodState) -> bool:
    """Return whether starting its containers has not brought a pod's GPU back."""
    lost = pod.gpu is not None and not pod.gpu.usable
    return lost and pod.restarts >= STARTS - 1 and not (pod.ready or pod.terminating)


TRTLLM = "tensorrt_llm"
"""Name of TensorRT-LLM among a manifest's versions."""


def with_match(decision: BuildDecision, plan: BuildPlan, engine_config: str) -> BuildDecision:
    """Return the decision, or a refusal of an engine that the planned pods could not load.

    TensorRT engines run on one compute capability and with one version of TensorRT-LLM. What the
    manifest says is what the builder really was, also of an engine that was found or imported.
    The result stays recorded: other models judge it by their own plan, which is the same.
    """
    if decision.step is not Step.DONE or decision.result is None:
        return decision
    found = "; ".join(mismatches(plan, decision.result))
    if not found:
        return decision
    return replace(
        decision,
        step=Step.FAILED,
        reason=Reason.ENGINE_MISMATCH,
        message=f"the engine cannot be served as planned: {found}\n"
        "give build and serving the same image and GPU (spec.build, spec.runtime), then delete "
        f"ConfigMap {engine_config} and the engine in the store to build it again",
        phase="Failed",
    )


def mismatches(plan: BuildPlan, result: BuildResult) -> Iterator[str]:
    """Yield what keeps the engine from being loaded, each as a sentence."""
    planned = plan.trtllm
    if planned is None:
        return
    built = result.gpu
    if built is not None and built.compute_capability != planned.gpu.compute_capability:
        yield (
            f"it was built on {built.product} with compute capability {built.compute_capability}, "
            f"and pods run on {planned.gpu.product} with {planned.gpu.compute_capability}"
        )
    version = result.versions.get(TRTLLM)
    if version is not None and version != planned.version:
        yield (f"it was built by TensorRT-LLM {version}, and pods serve with {planned.version}")


SWEEPS_IN_TIME = 4
"""Sweeps while an engine waits for its end: it goes at the latest a quarter of the time late."""

_SHORTEST, _LONGEST = timedelta(minutes=1), timedelta(days=1)

_NONE = GarbageCollection()


def decide_garbage_collection(snapshot: Snapshot, spec: MultimodalModelSpec) -> GarbageCollection:
    """Return the sweep of the namespace's claim, if this model is the one that sweeps it.

    In use is what a ConfigMap of an engine says in the claim's namespace: these exist while a model
    wants or serves the engine, and go with the last one. Since when an engine is not in use is
    noted in the store itself, by the sweep.
    """
    wanted, claim = spec.build.store.gc_after, snapshot.observed.store
    first = min(claim.owners, default=None) if claim else None
    if wanted is None or first is None or first.uid != snapshot.uid:
        return _NONE
    period = min(max(duration.parse(wanted) / SWEEPS_IN_TIME, _SHORTEST), _LONGEST)
    job = latest(job for job in snapshot.observed.jobs.values() if labels.SWEEP in job.annotations)
    if job is None:
        return _start(snapshot, attempt=1)
    due = _due_in(job, period, snapshot.now)
    if due is None:
        return GarbageCollection(job=job.name)
    if due > 0:
        return GarbageCollection(job=job.name, due_in=due)
    return _start(snapshot, attempt=attempt_of(job) + 1)


def _due_in(job: JobState, period: timedelta, now: datetime) -> float | None:
    """Return seconds until the next sweep; None while one is at work."""
    if job.phase in {JobPhase.PENDING, JobPhase.RUNNING}:
        return None
    ended = job.finished_at or job.created
    return max(0.0, (ended + period - now).total_seconds())


def _start(snapshot: Snapshot, *, attempt: int) -> GarbageCollection:
    configs = [one.config for one in snapshot.observed.engines.values() if one.config]
    plans = [parse(BuildPlan, config.data.get(PLAN_FILE)) for config in configs]
    if None in plans:
        return _NONE  # a damaged record: what it keeps is not known, so nothing is removed now
    kept = sorted({plan.fingerprint for plan in plans if plan})
    return GarbageCollection(
        job=names.sweep_job(snapshot.name, attempt), start=True, attempt=attempt, keep=tuple(kept)
    )
