"""What the stages decide for every state of their Jobs."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mm_api import labels
from mm_api.documents.build_result import BuildResult
from mm_api.documents.model_facts import InspectResult
from mm_operator import names
from mm_operator.model import (
    ConfigState,
    EngineState,
    JobPhase,
    JobState,
    Observed,
    Owner,
    PodEnd,
    Snapshot,
    Step,
    VolumeFault,
    VolumeTrouble,
)
from mm_operator.plan import decide
from mm_operator.plan.inspection import inputs_hash
from mm_operator.plan.jobs import attempt_of, latest, terms_of
from mm_operator.plan.records import (
    FACTS_KEY,
    INSPECTION_KEY,
    Inspection,
    read_inspect_result,
    read_inspection,
)
from support.models import EPOCH, SETTINGS, snapshot_of, spec_of, tiny_facts

HASH = inputs_hash(spec_of(), 0)
FOUND = InspectResult(facts=tiny_facts()).to_json()


def inspect_job(phase: JobPhase, attempt: int = 1, **fields: Any) -> JobState:
    """Return an inspect Job of the default model."""
    marks = {labels.INPUTS_HASH: HASH, labels.ATTEMPT: str(attempt)}
    name = names.inspect_job("llava", HASH, attempt)
    return JobState(name, "uid", phase, EPOCH, annotations=marks, **fields)


def seen(*jobs: JobState) -> Snapshot:
    """Return the default model with inspect Jobs."""
    return snapshot_of(observed=Observed(jobs={job.name: job for job in jobs}))


def inspected(**observed: Any) -> Snapshot:
    """Return the default model with recorded facts."""
    record = Inspection(inputs_hash=HASH, round=0, inspected_at=EPOCH)
    data = {FACTS_KEY: tiny_facts().to_json(), INSPECTION_KEY: record.to_json()}
    config = ConfigState("llava-facts", "uid", data=data)
    return snapshot_of(observed=Observed(configs={"llava-facts": config}, **observed))


ENGINE = decide(inspected()).engine_config


def building(phase: JobPhase, attempt: int = 1, **fields: Any) -> Snapshot:
    """Return the default model with recorded facts and a build Job."""
    marks = {labels.ATTEMPT: str(attempt)}
    job = JobState(f"{ENGINE}-{attempt}", "uid", phase, EPOCH, annotations=marks, **fields)
    state = EngineState(ConfigState(ENGINE, "uid"), (job,))
    return inspected(engines={ENGINE: state}, owned_engines=frozenset({ENGINE}))


@pytest.mark.parametrize(
    ("job", "step", "reason", "words"),
    [
        pytest.param(
            inspect_job(JobPhase.PENDING), Step.RUNNING, "InspectPending", "waits", id="pending"
        ),
        pytest.param(
            inspect_job(
                JobPhase.PENDING,
                waiting="CreateContainerError: executable file `mm-runtime` not found in $PATH",
            ),
            Step.RUNNING,
            "ImageNotUsable",
            "spec.build.image",
            id="stock-image-with-cri-o",
        ),
        pytest.param(
            inspect_job(JobPhase.PENDING, waiting='persistentvolumeclaim "a" not found'),
            Step.RUNNING,
            "PodsUnschedulable",
            'persistentvolumeclaim "a" not found; make it',
            id="claim-is-missing",
        ),
        pytest.param(
            inspect_job(JobPhase.PENDING, waiting="exceeded quota: pods"),
            Step.RUNNING,
            "QuotaExceeded",
            "exceeded quota",
            id="quota",
        ),
        pytest.param(
            inspect_job(
                JobPhase.PENDING, waiting="failed quota: q: must specify limits.cpu for: inspect"
            ),
            Step.RUNNING,
            "QuotaExceeded",
            "must specify limits.cpu",
            id="quota-on-limits",
        ),
        pytest.param(
            inspect_job(
                JobPhase.PENDING,
                waiting='pods "a" is forbidden: maximum memory usage per Container is 512Mi, but '
                "limit is 1Gi",
            ),
            Step.RUNNING,
            "QuotaExceeded",
            "maximum memory usage per Container is 512Mi",
            id="limit-range",
        ),
        pytest.param(
            inspect_job(JobPhase.PENDING, volume=VolumeTrouble(VolumeFault.ATTACHED_ELSEWHERE)),
            Step.RUNNING,
            "VolumeUnavailable",
            "another node has it (Multi-Attach)",
            id="volume-on-another-node",
        ),
        pytest.param(
            inspect_job(JobPhase.PENDING, deleting=True),
            Step.RUNNING,
            "InspectPending",
            "is being deleted",
            id="name-is-not-free",
        ),
        pytest.param(
            inspect_job(JobPhase.RUNNING), Step.RUNNING, "Inspecting", "inspected", id="running"
        ),
        pytest.param(
            inspect_job(
                JobPhase.RUNNING,
                ends=(PodEnd("a", succeeded=True, exit_code=0, message=FOUND),),
            ),
            Step.DONE,
            "PlanComplete",
            "was inspected",
            id="pod-ended-before-its-job",
        ),
        pytest.param(
            inspect_job(JobPhase.SUCCEEDED),
            Step.START,
            "Inspecting",
            "being created",
            id="pod-is-gone-with-its-facts",
        ),
        pytest.param(
            inspect_job(JobPhase.SUCCEEDED, attempt=2),
            Step.FAILED,
            "InspectFailed",
            "left no pod",
            id="pod-is-gone-again",
        ),
        pytest.param(
            inspect_job(JobPhase.FAILED, finished_at=EPOCH),
            Step.FAILED,
            "InspectFailed",
            "retried automatically",
            id="failed",
        ),
    ],
)
def test_inspect_jobs(job: JobState, step: Step, reason: str, words: str) -> None:
    """Each state of the inspect Job leads to one decision."""
    actual = decide(seen(job)).inspect
    assert (step, reason, True) == (actual.step, actual.reason, words in actual.message)


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [
        pytest.param(1, 30, id="first"),
        pytest.param(2, 60, id="second"),
        pytest.param(6, 600, id="never-above-ten-minutes"),
        pytest.param(1000, 600, id="no-overflow"),
    ],
)
def test_inspections_are_repeated_with_growing_delays(attempt: int, seconds: int) -> None:
    """The next attempt is due after a delay counted from the end of the last one."""
    job = inspect_job(JobPhase.FAILED, attempt, finished_at=EPOCH)
    before, due = (
        decide(replace(seen(job), now=EPOCH + timedelta(seconds=seconds + offset)))
        for offset in (-1, 0)
    )
    assert (1, Step.FAILED, Step.START, attempt + 1) == (
        before.recheck_after,
        before.inspect.step,
        due.inspect.step,
        due.inspect.attempt,
    )


@pytest.mark.parametrize(
    ("snapshot", "step", "reason", "words"),
    [
        pytest.param(inspected(), Step.WAITING, "BuildPending", "being written", id="no-plan-yet"),
        pytest.param(
            inspected(engines={ENGINE: EngineState(ConfigState(ENGINE, "uid"))}),
            Step.START,
            "Building",
            "being created",
            id="no-job-yet",
        ),
        pytest.param(
            building(JobPhase.PENDING, waiting="0/1 nodes are available"),
            Step.RUNNING,
            "BuildPending",
            "0/1 nodes",
            id="unschedulable",
        ),
        pytest.param(
            building(
                JobPhase.PENDING,
                failed_pods=1,
                ends=(PodEnd("a", succeeded=False, exit_code=137, reason="OOMKilled"),),
            ),
            Step.RUNNING,
            "BuildOutOfMemory",
            "raise the limit; it is retried automatically: it waits for its next pod",
            id="between-two-pods",
        ),
        pytest.param(
            building(
                JobPhase.RUNNING,
                failed_pods=1,
                ends=(PodEnd("a", succeeded=False, exit_code=137, reason="OOMKilled"),),
            ),
            Step.RUNNING,
            "Building",
            "being built\nbefore: the build was killed",
            id="second-pod-runs",
        ),
        pytest.param(
            building(
                JobPhase.SUCCEEDED,
                ends=(PodEnd("a", succeeded=True, exit_code=0, message="{}"),),
            ),
            Step.START,
            "Building",
            "being created",
            id="pod-is-gone-with-its-result",
        ),
        pytest.param(
            building(JobPhase.SUCCEEDED, attempt=2),
            Step.FAILED,
            "BuildFailed",
            "left no result",
            id="pod-is-gone-again",
        ),
        pytest.param(
            building(
                JobPhase.FAILED,
                failed_pods=4,
                ends=(PodEnd("a", succeeded=False, exit_code=1),),
            ),
            Step.FAILED,
            "BuildFailed",
            "(pods that failed: 4)",
            id="failed",
        ),
    ],
)
def test_build_jobs(snapshot: Snapshot, step: Step, reason: str, words: str) -> None:
    """Each state of the build Job leads to one decision."""
    actual = decide(snapshot).build
    assert (step, reason, True) == (actual.step, actual.reason, words in actual.message)


@pytest.mark.parametrize(
    ("expected", "snapshot"),
    [
        pytest.param(0, inspected(), id="plan-is-being-written"),
        pytest.param(
            0,
            seen(
                inspect_job(
                    JobPhase.SUCCEEDED,
                    ends=(PodEnd("a", succeeded=True, exit_code=0, message=FOUND),),
                )
            ),
            id="facts-are-being-recorded",
        ),
        pytest.param(None, building(JobPhase.RUNNING), id="only-events-matter"),
    ],
)
def test_own_writes_are_followed_at_once(expected: float | None, snapshot: Snapshot) -> None:
    """What this reconcile writes may raise no event: the next one is requested."""
    assert expected == decide(snapshot).recheck_after


FAILED = {"finished_at": EPOCH, "ends": (PodEnd("a", succeeded=False, exit_code=3),)}
ME, OTHER = "uid-of-llava", "uid-of-other"


@pytest.mark.parametrize(
    ("expected", "phase", "made_by", "owners"),
    [
        pytest.param(Step.START, JobPhase.FAILED, ME, (ME, OTHER), id="mine-failed"),
        pytest.param(Step.START, JobPhase.PENDING, ME, (ME,), id="mine-waits"),
        pytest.param(Step.RUNNING, JobPhase.RUNNING, ME, (ME,), id="mine-runs-undisturbed"),
        pytest.param(Step.FAILED, JobPhase.FAILED, OTHER, (ME, OTHER), id="of-another-owner"),
        pytest.param(Step.START, JobPhase.FAILED, OTHER, (ME,), id="its-maker-has-left"),
    ],
)
def test_changed_terms_make_another_build_job(
    expected: Step, phase: JobPhase, made_by: str, owners: tuple[str, ...]
) -> None:
    """More memory, another node or image count at once, unless a pod runs or it is not ours."""
    marks = {labels.ATTEMPT: "1", labels.TERMS_HASH: "former", labels.MADE_BY: made_by}
    job = JobState(f"{ENGINE}-1", "uid", phase, EPOCH, annotations=marks, **FAILED)
    config = ConfigState(ENGINE, "uid", owners=tuple(Owner(uid, uid) for uid in owners))
    state = {ENGINE: EngineState(config, (job,))}
    decision = decide(inspected(engines=state, owned_engines=frozenset({ENGINE}))).build
    assert expected == decision.step
    assert decision.job == f"{ENGINE}-{2 if expected is Step.START else 1}"


@pytest.mark.parametrize(
    ("expected", "phase"),
    [
        pytest.param(Step.START, JobPhase.FAILED, id="failed"),
        pytest.param(Step.START, JobPhase.PENDING, id="waits"),
        pytest.param(Step.RUNNING, JobPhase.RUNNING, id="runs"),
    ],
)
def test_changed_terms_make_another_inspection(expected: Step, phase: JobPhase) -> None:
    """An inspection that waits for a node that never comes is made again where it may run."""
    job = inspect_job(phase, **FAILED)
    former = replace(job, annotations={**job.annotations, labels.TERMS_HASH: "former"})
    assert expected == decide(seen(former)).inspect.step


@pytest.mark.parametrize(
    ("changed", "changes"),
    [
        pytest.param(True, {"build": {"timeout": "1h"}}, id="timeout"),
        pytest.param(True, {"build": {"nodeSelector": {"a": "b"}}}, id="place"),
        pytest.param(True, {"build": {"image": "x/y:1"}}, id="image"),
        pytest.param(False, {"replicas": 3}, id="replicas"),
        pytest.param(False, {"runtime": {"podLabels": {"a": "b"}}}, id="pods"),
        pytest.param(True, {"network": {"proxy": {"http": "http://a:1"}}}, id="proxy"),
        pytest.param(False, {"network": {"proxy": {"requestUrls": True}}}, id="urls-of-requests"),
        pytest.param(False, {"network": {"ipFamilyPolicy": "SingleStack"}}, id="services"),
    ],
)
def test_terms_are_those_of_jobs(changes: dict[str, Any], *, changed: bool) -> None:
    """What only concerns serving pods disturbs no Job."""
    before, after = (terms_of(spec_of(one), SETTINGS, ME) for one in ({}, changes))
    assert changed == (before != after)


def test_engine_of_others_is_looked_at_again() -> None:
    """A model that has not joined the owners yet learns of no event, so it looks by itself."""
    joining = inspected(engines={ENGINE: EngineState(ConfigState(ENGINE, "uid"))})
    assert decide(joining).recheck_after == 3


def test_result_of_another_engine_is_not_taken() -> None:
    """A result counts only when it names the fingerprint that was requested."""
    text = BuildResult(fingerprint="f" * 64, manifest_sha256="a" * 64).to_json()
    end = PodEnd("a", succeeded=True, exit_code=0, message=text)
    assert Step.START is decide(building(JobPhase.SUCCEEDED, ends=(end,))).build.step


def test_result_is_taken_from_the_pod_before_its_job_ends() -> None:
    """Pods may be deleted, with what they said: an eviction deletes also one that ends well."""
    plan = decide(inspected()).build_plan
    assert plan is not None
    result = BuildResult(fingerprint=plan.fingerprint, manifest_sha256="a" * 64)
    end = PodEnd("a", succeeded=True, exit_code=0, message=result.to_json())
    assert result == decide(building(JobPhase.RUNNING, ends=(end,))).build.result


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        pytest.param(3, "3", id="number"),
        pytest.param(1, "", id="missing"),
        pytest.param(1, "0", id="zero"),
        pytest.param(1, "x", id="no-number"),
        pytest.param(999_999_999, "999999999", id="as-long-as-numbers-may-be"),
        pytest.param(1, "1000000000", id="longer"),
    ],
)
def test_attempts_are_read(expected: int, text: str) -> None:
    """A Job that does not say its attempt is the first."""
    job = JobState("a", "b", JobPhase.PENDING, EPOCH, annotations={labels.ATTEMPT: text})
    assert expected == attempt_of(job)


def test_the_highest_attempt_is_the_current_one() -> None:
    """Older attempts that still exist do not count."""
    jobs = [inspect_job(JobPhase.FAILED, attempt) for attempt in (2, 10, 1)]
    assert (jobs[1], None) == (latest(jobs), latest([]))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({}, id="empty"),
        pytest.param({FACTS_KEY: "{"}, id="truncated"),
        pytest.param({FACTS_KEY: tiny_facts().to_json(), INSPECTION_KEY: "{}"}, id="half"),
    ],
)
def test_damaged_records_count_as_missing(data: dict[str, str]) -> None:
    """A document that someone damaged is made again."""
    assert None is read_inspection(ConfigState("a", "b", data=data))


def test_another_source_is_inspected_from_the_start() -> None:
    """Facts of another source do not count, and neither does the round they were found in."""
    changed = {"model": {"source": {"persistentVolumeClaim": {"claimName": "other"}}}}
    plan = decide(replace(inspected(), spec=spec_of(changed)))
    assert (
        plan.inspect.step,
        plan.inspect.round,
        plan.inspect.inputs_hash != HASH,
    ) == (Step.START, 0, True)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("Traceback", id="log"),
        pytest.param("{}", id="neither-facts-nor-error"),
        pytest.param('{"facts": 1}', id="wrong-type"),
    ],
)
def test_reports_that_say_nothing(text: str) -> None:
    """A termination message without facts or error is no report."""
    assert None is read_inspect_result(text)
