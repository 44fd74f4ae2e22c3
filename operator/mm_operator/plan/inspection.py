"""Is the checkpoint inspected, and if not, what happens next?"""

from datetime import datetime
from typing import Any

from mm_api import labels
from mm_api.conditions import Reason
from mm_api.documents.model_facts import ModelFacts
from mm_api.sentences import joined
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator import names
from mm_operator.digests import digest, stated
from mm_operator.model import InspectDecision, JobPhase, JobState, Snapshot, Step
from mm_operator.plan.failures import cause_of, failure_so_far, inspect_failure
from mm_operator.plan.jobs import INSPECT, RETRIED, attempt_of, job_inputs, latest, waits
from mm_operator.plan.records import read_inspect_result, read_inspection

_INSPECTED = "the checkpoint was inspected"


def inputs_hash(spec: MultimodalModelSpec, round_: int) -> str:
    """Return the digest of everything an inspection depends on.

    The image is left out on purpose: a new operator must not inspect every checkpoint again.
    """
    content: dict[str, Any] = {"formatVersion": 1, "model": stated(spec.model), "round": round_}
    if spec.engine.lora:
        content["lora"] = [stated(one) for one in spec.engine.lora]
    return digest(content)


def decide_inspect(
    snapshot: Snapshot, spec: MultimodalModelSpec, *, stale: bool
) -> InspectDecision:
    """Return what becomes of the inspection; `stale`: a build found another source than it says."""
    recorded = read_inspection(snapshot.observed.configs.get(names.facts_config(snapshot.name)))
    round_ = 0
    if recorded:
        inspection, facts = recorded
        if inspection.inputs_hash == inputs_hash(spec, inspection.round):
            if not stale:
                return InspectDecision(
                    Step.DONE,
                    Reason.PLAN_COMPLETE,
                    _INSPECTED,
                    inputs_hash=inspection.inputs_hash,
                    round=inspection.round,
                    facts=facts,
                    inspected_at=inspection.inspected_at,
                )
            round_ = inspection.round + 1
    wanted = inputs_hash(spec, round_)
    job = latest(
        job
        for job in snapshot.observed.jobs.values()
        if job.annotations.get(labels.INPUTS_HASH) == wanted
    )
    if job is None:
        return _started(snapshot, wanted, round_)
    decision = _follow(snapshot, job, round_)
    pending = job.phase is JobPhase.PENDING and not job.deleting
    if decision.step is Step.FAILED or (pending and decision.step is Step.RUNNING):
        terms = job_inputs(spec, snapshot.settings, snapshot.uid)
        if terms.replace(job):
            return _started(snapshot, wanted, round_, attempt=attempt_of(job) + 1)
    return decision


def _started(snapshot: Snapshot, wanted: str, round_: int, *, attempt: int = 1) -> InspectDecision:
    again = "the source changed: it is being inspected again" if round_ else ""
    return InspectDecision(
        Step.START,
        Reason.INSPECTING,
        again or "an inspect Job is being created",
        job=names.inspect_job(snapshot.name, wanted, attempt),
        inputs_hash=wanted,
        attempt=attempt,
        round=round_,
    )


def _follow(snapshot: Snapshot, job: JobState, round_: int) -> InspectDecision:
    wanted, attempt = job.annotations[labels.INPUTS_HASH], attempt_of(job)

    def of_job(step: Step, reason: str, message: str, **more: Any) -> InspectDecision:
        return InspectDecision(step, reason, message, job.name, wanted, attempt, round_, **more)

    found = _found(job)
    if found:
        # Taken from the pod, before its Job is complete: pods may be deleted, by an eviction say.
        facts, when = found
        return of_job(Step.DONE, Reason.PLAN_COMPLETE, _INSPECTED, facts=facts, inspected_at=when)

    failure = failure_so_far(job, inspect_failure)
    if job.phase is JobPhase.PENDING:
        reason, message = waits(job, Reason.INSPECT_PENDING, "the inspection", failure)
        return of_job(Step.RUNNING, reason, message, cause=cause_of(failure))
    if job.phase is JobPhase.RUNNING:
        message = "the checkpoint is being inspected"
        message += f"\nbefore: {failure.message}" if failure else ""
        return of_job(Step.RUNNING, Reason.INSPECTING, message, cause=cause_of(failure))
    if job.phase is JobPhase.SUCCEEDED and attempt == 1:
        # The facts went with the pod; the same inspection finds them again. Twice is a failure.
        return _started(snapshot, wanted, round_, attempt=attempt + 1)
    left = INSPECT.seconds_left(
        attempt=attempt, finished_at=job.finished_at or job.created, now=snapshot.now
    )
    if left == 0:
        return _started(snapshot, wanted, round_, attempt=attempt + 1)
    failure = inspect_failure(job)
    return of_job(Step.FAILED, failure.reason, joined(failure.message, RETRIED), retry_in=left)


def _found(job: JobState) -> tuple[ModelFacts, datetime] | None:
    """Return what a pod of the Job found, and when."""
    for end in reversed(job.ends):
        report = read_inspect_result(end.message) if end.succeeded else None
        if report and report.facts:
            return report.facts, end.finished_at or job.finished_at or job.created
    return None
