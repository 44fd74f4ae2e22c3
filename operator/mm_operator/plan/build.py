"""Is the engine of the current plan needed, there, building or broken?"""

from dataclasses import replace
from datetime import datetime

from mm_api.conditions import Reason
from mm_api.documents.build_result import BuildProgress, BuildResult, last_progress
from mm_api.sentences import joined
from mm_operator import names
from mm_operator.model import (
    BuildDecision,
    Builder,
    BuildPhase,
    ConfigState,
    EngineState,
    InspectDecision,
    JobPhase,
    JobState,
    PodDamage,
    Step,
)
from mm_operator.plan.damage import REST, Damage, built_at, damage_of, is_news, read_damage, written
from mm_operator.plan.engine_plan import WantedEngine
from mm_operator.plan.failures import Failure, build_failure, cause_of, failure_so_far
from mm_operator.plan.jobs import BUILD, RETRIED, JobInputs, attempt_of, is_of, latest, waits
from mm_operator.plan.records import RESULT_KEY, read_builder, successful

_NO_PLAN = BuildDecision(Step.WAITING, Reason.WAITING_FOR_PLAN, "the plan comes first")
_UNWRITTEN = BuildDecision(Step.WAITING, Reason.BUILD_PENDING, "the build plan is being written")


def decide_build(
    wanted: WantedEngine | None,
    engine: EngineState,
    inspect: InspectDecision,
    terms: JobInputs,
    now: datetime,
    *,
    found: PodDamage | None = None,
) -> BuildDecision:
    """Return what becomes of the engine; without `wanted` there is no plan yet.

    `terms`: what this model's Jobs are made from. `found`: what a pod of the model said that could
    not load the engine.
    """
    if wanted is None:
        return _NO_PLAN
    config = engine.config
    if config is None:
        return _UNWRITTEN
    result = successful(config.data.get(RESULT_KEY), wanted.plan.build_plan.fingerprint)
    damage = read_damage(config)
    if result:
        built = _built(wanted, result, read_builder(config), built_at(config))
        if found and is_news(found, config):
            return _damaged(built, found, damage, engine, wanted.config)
        return _repaired(built, damage)
    strangers = (attempt_of(job) for job in engine.jobs if not is_of(job, config))
    former = max((damage.former_attempt if damage else 0, *strangers))
    job = latest(job for job in engine.jobs if is_of(job, config) and attempt_of(job) > former)
    if job is None:
        return _again(_start(wanted.config, attempt=former + 1), damage)
    decision = _follow(wanted, job, inspect, now)
    if _is_replaceable(decision, job) and terms.replace(job, config):
        decision = _start(wanted.config, attempt=attempt_of(job) + 1)
    return _again(_awaited(decision, config, terms.model_uid), damage)


def _damaged(
    built: BuildDecision,
    found: PodDamage,
    before: Damage | None,
    engine: EngineState,
    name: str,
) -> BuildDecision:
    """Return what follows when a pod could not load the recorded engine: the first time, a build.

    The record is taken back, which is all that has to be done: without it the next round builds.
    """
    if before and found.found_at - before.found_at < REST:
        return replace(
            built,
            step=Step.FAILED,
            reason=Reason.ENGINE_CORRUPT,
            message=f"the engine was built again and is damaged again: {found.message}\n"
            f"check the store's disk, then delete ConfigMap {name} to build it again",
            phase="Failed",
            damage=written(before),
        )
    return BuildDecision(
        Step.WAITING,
        Reason.ENGINE_CORRUPT,
        f"the engine is damaged and is built again: {found.message}",
        damage=written(damage_of(found, engine)),
    )


def _again(decision: BuildDecision, damage: Damage | None) -> BuildDecision:
    if damage is None:
        return decision
    if decision.step is Step.DONE:
        return _repaired(decision, damage)
    if decision.step is Step.START:
        # The round that took the record back is followed at once by this one and writes no status.
        return replace(
            decision,
            reason=Reason.ENGINE_CORRUPT,
            message=f"the engine is damaged and is built again: {damage.message}",
            damage=written(damage),
        )
    message = f"{decision.message}\nit is built again because: {damage.message}"
    return replace(decision, message=message, damage=written(damage))


def _repaired(built: BuildDecision, damage: Damage | None) -> BuildDecision:
    """Return an engine that is there, with what had happened to the one before it.

    A rebuild may take seconds: the status still shows a bad disk afterwards.
    """
    if damage is None:
        return built
    message = joined(built.message, f"the one before it was damaged: {damage.message}")
    return replace(built, message=message, damage=written(damage))


def _awaited(decision: BuildDecision, config: ConfigState, model_uid: str) -> BuildDecision:
    """Return the decision as a model reads it that waits for the Job of another one.

    The Job of a model that left runs on for those that still want the engine: it is theirs.
    """
    builder = decision.builder
    owners = {owner.uid for owner in config.owners}
    if decision.step is not Step.RUNNING or builder is None:
        return decision
    if builder.uid == model_uid or builder.uid not in owners:
        return decision
    return replace(
        decision,
        phase="Waiting",
        reason=Reason.WAITING_FOR_BUILD,
        message=f"model {builder} builds this engine: {decision.message}",
    )


def _is_replaceable(decision: BuildDecision, job: JobState) -> bool:
    pending = job.phase is JobPhase.PENDING and not job.deleting
    return decision.step is Step.FAILED or (pending and decision.step is Step.RUNNING)


def _follow(
    wanted: WantedEngine, job: JobState, inspect: InspectDecision, now: datetime
) -> BuildDecision:
    result = _result(wanted, job)
    if result:
        # Taken from the pod, before its Job is complete: pods may be deleted, by an eviction say.
        made, when = result
        return _built(wanted, made, job.builder, when, job=job.name, attempt=attempt_of(job))
    if job.phase is JobPhase.PENDING:
        failure = failure_so_far(job, build_failure)
        reason, message = waits(job, Reason.BUILD_PENDING, "the build", failure)
        return _running(job, reason, message)
    if job.phase is JobPhase.RUNNING:
        return _building(job)
    if job.phase is JobPhase.SUCCEEDED:
        return _lost(wanted, job, inspect, now)
    return _failed(wanted, job, build_failure(job), inspect, now)


def _result(wanted: WantedEngine, job: JobState) -> tuple[BuildResult, datetime] | None:
    fingerprint = wanted.plan.build_plan.fingerprint
    for end in reversed(job.ends):
        result = successful(end.message, fingerprint) if end.succeeded else None
        if result:
            return result, end.finished_at or job.created
    return None


def _lost(
    wanted: WantedEngine, job: JobState, inspect: InspectDecision, now: datetime
) -> BuildDecision:
    """Return what follows a build that ended well and whose pod is gone with its result.

    Another Job finds the engine in the store and says so within seconds: the first comes at once.
    """
    attempt = attempt_of(job)
    if attempt == 1:
        return _start(wanted.config, attempt=attempt + 1)
    lost = Failure(Reason.BUILD_FAILED, "the build ended well but left no result", retryable=True)
    return _failed(wanted, job, lost, inspect, now)


def _start(engine_config: str, *, attempt: int) -> BuildDecision:
    return BuildDecision(
        Step.START,
        Reason.BUILDING,
        "a build Job is being created",
        job=names.build_job(engine_config, attempt),
        attempt=attempt,
    )


def _built(
    wanted: WantedEngine,
    result: BuildResult,
    builder: Builder | None,
    when: datetime | None,
    *,
    job: str = "",
    attempt: int = 1,
) -> BuildDecision:
    staged = wanted.plan.build_plan.engine.traits.stages
    how = "the checkpoint is staged" if staged else "the engine is built"
    if result.reused:
        how = f"the store held the {'checkpoint' if staged else 'engine'} already"
    return BuildDecision(
        Step.DONE,
        Reason.BUILD_SUCCEEDED,
        how,
        job=job,
        attempt=attempt,
        result=result,
        phase="Succeeded",
        builder=builder,
        built_at=when,
        record=result,
    )


def _building(job: JobState) -> BuildDecision:
    """Return how far a pod that runs is; one that waits inside the store says for whom."""
    progress = last_progress(job.progress)
    if progress and progress.waiting_for:
        other = f"{progress.waiting_for} builds this engine in the same store"
        return _running(job, Reason.WAITING_FOR_BUILD, other, phase="Waiting", progress=progress)
    return _running(
        job, Reason.BUILDING, "the engine is being built", phase="Building", progress=progress
    )


def _running(
    job: JobState,
    reason: str,
    message: str,
    *,
    phase: BuildPhase = "Pending",
    progress: BuildProgress | None = None,
) -> BuildDecision:
    failure = failure_so_far(job, build_failure)
    # The message about a Job that waits has it already.
    before = f"\nbefore: {failure.message}" if failure and phase != "Pending" else ""
    return BuildDecision(
        Step.RUNNING,
        reason,
        f"{message}{before}",
        job=job.name,
        attempt=attempt_of(job),
        result=failure.result if failure else None,
        failed_pods=job.failed_pods,
        phase=phase,
        progress=progress,
        started_at=job.started_at,
        builder=job.builder,
        cause=cause_of(failure),
    )


def _failed(
    wanted: WantedEngine, job: JobState, failure: Failure, inspect: InspectDecision, now: datetime
) -> BuildDecision:
    finished = job.finished_at or job.created
    attempt = attempt_of(job)
    stale = failure.source_changed and (
        inspect.inspected_at is None or inspect.inspected_at < finished
    )
    retryable = failure.retryable or failure.source_changed
    left = BUILD.seconds_left(attempt=attempt, finished_at=finished, now=now)
    if retryable and not stale and left == 0:
        return _start(wanted.config, attempt=attempt + 1)
    tries = max(job.failed_pods, 1)
    times = f" (pods that failed: {tries})" if tries > 1 else ""
    todo = (
        "the source is inspected again"
        if stale
        else RETRIED
        if retryable
        else f"change the spec, or delete Job {job.name} to try again; it is deleted "
        "automatically after spec.build.ttlAfterFinished"
    )
    return BuildDecision(
        Step.WAITING if stale else Step.FAILED,
        failure.reason,
        f"{failure.message}{times}\n{todo}",
        job=job.name,
        attempt=attempt,
        result=failure.result,
        failed_pods=job.failed_pods,
        phase="Pending" if stale else "Failed",
        builder=job.builder,
        stale_source=stale,
        retry_in=left if retryable and not stale else None,
    )
