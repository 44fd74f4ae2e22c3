"""What the stages decide for every state of their Jobs."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from mm_api import labels
from mm_api.documents.build_result import BuildResult
from mm_api.documents.model_facts import InspectResult
from mm_operator import names
from mm_operator.model import (
    BuildDecision,
    ConfigState,
    EngineState,
    InspectDecision,
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
from mm_operator.plan.jobs import attempt_of, job_inputs, latest
from mm_operator.plan.records import (
    FACTS_KEY,
    INSPECTION_KEY,
    Inspection,
    read_inspect_result,
    read_inspection,
)
from support.cases import cases
from support.golden import Golden
from support.models import EPOCH, SETTINGS, snapshot_of, spec_of, tiny_facts

HASH = inputs_hash(spec_of(), 0)
FOUND = InspectResult(facts=tiny_facts()).to_json()


def inspect_job(phase: JobPhase, attempt: int = 1, **fields: Any) -> JobState:
    marks = {labels.INPUTS_HASH: HASH, labels.ATTEMPT: str(attempt)}
    name = names.inspect_job("llava", HASH, attempt)
    return JobState(name, "uid", phase, EPOCH, annotations=marks, **fields)


def seen(*jobs: JobState) -> Snapshot:
    return snapshot_of(observed=Observed(jobs={job.name: job for job in jobs}))


def inspected(**observed: Any) -> Snapshot:
    record = Inspection(inputs_hash=HASH, round=0, inspected_at=EPOCH)
    data = {FACTS_KEY: tiny_facts().to_json(), INSPECTION_KEY: record.to_json()}
    config = ConfigState("llava-facts", "uid", data=data)
    return snapshot_of(observed=Observed(configs={"llava-facts": config}, **observed))


ENGINE = decide(inspected()).engine_config


def building(phase: JobPhase, attempt: int = 1, **fields: Any) -> Snapshot:
    marks = {labels.ATTEMPT: str(attempt)}
    job = JobState(f"{ENGINE}-{attempt}", "uid", phase, EPOCH, annotations=marks, **fields)
    state = EngineState(ConfigState(ENGINE, "uid"), (job,))
    return inspected(engines={ENGINE: state}, owned_engines=frozenset({ENGINE}))


def answer_of(decision: InspectDecision | BuildDecision) -> list[str]:
    return [decision.step.name, str(decision.reason), decision.message]


INSPECTIONS = {
    "pending": inspect_job(JobPhase.PENDING),
    "stock-image-with-cri-o": inspect_job(
        JobPhase.PENDING,
        waiting="CreateContainerError: executable file `mm-runtime` not found in $PATH",
    ),
    "claim-is-missing": inspect_job(
        JobPhase.PENDING, waiting='persistentvolumeclaim "a" not found'
    ),
    "quota": inspect_job(JobPhase.PENDING, waiting="exceeded quota: pods"),
    "quota-on-limits": inspect_job(
        JobPhase.PENDING, waiting="failed quota: q: must specify limits.cpu for: inspect"
    ),
    "limit-range": inspect_job(
        JobPhase.PENDING,
        waiting='pods "a" is forbidden: maximum memory usage per Container is 512Mi, but '
        "limit is 1Gi",
    ),
    "volume-on-another-node": inspect_job(
        JobPhase.PENDING, volume=VolumeTrouble(VolumeFault.ATTACHED_ELSEWHERE)
    ),
    "name-is-not-free": inspect_job(JobPhase.PENDING, deleting=True),
    "running": inspect_job(JobPhase.RUNNING),
    "pod-ended-before-its-job": inspect_job(
        JobPhase.RUNNING, ends=(PodEnd("a", succeeded=True, exit_code=0, message=FOUND),)
    ),
    "pod-is-gone-with-its-facts": inspect_job(JobPhase.SUCCEEDED),
    "pod-is-gone-again": inspect_job(JobPhase.SUCCEEDED, attempt=2),
    "failed": inspect_job(JobPhase.FAILED, finished_at=EPOCH),
}


def test_inspect_jobs(golden: Golden) -> None:
    found = {name: answer_of(decide(seen(job)).inspect) for name, job in INSPECTIONS.items()}
    golden.check_yaml("inspect-jobs.yaml", found)


@cases(
    "attempt seconds",
    {
        "first": (1, 30),
        "second": (2, 60),
    },
)
def test_inspections_are_repeated_with_growing_delays(attempt: int, seconds: int) -> None:
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


BUILDS = {
    "no-plan-yet": inspected(),
    "no-job-yet": inspected(engines={ENGINE: EngineState(ConfigState(ENGINE, "uid"))}),
    "unschedulable": building(JobPhase.PENDING, waiting="0/1 nodes are available"),
    "between-two-pods": building(
        JobPhase.PENDING,
        failed_pods=1,
        ends=(PodEnd("a", succeeded=False, exit_code=137, reason="OOMKilled"),),
    ),
    "second-pod-runs": building(
        JobPhase.RUNNING,
        failed_pods=1,
        ends=(PodEnd("a", succeeded=False, exit_code=137, reason="OOMKilled"),),
    ),
    "pod-is-gone-with-its-result": building(
        JobPhase.SUCCEEDED, ends=(PodEnd("a", succeeded=True, exit_code=0, message="{}"),)
    ),
    "pod-is-gone-again": building(JobPhase.SUCCEEDED, attempt=2),
    "failed": building(
        JobPhase.FAILED, failed_pods=4, ends=(PodEnd("a", succeeded=False, exit_code=1),)
    ),
}


def test_build_jobs(golden: Golden) -> None:
    found = {name: answer_of(decide(snapshot).build) for name, snapshot in BUILDS.items()}
    golden.check_yaml("build-jobs.yaml", found)


@cases(
    "expected snapshot",
    {
        "plan-is-being-written": (0, inspected()),
        "facts-are-being-recorded": (
            0,
            seen(
                inspect_job(
                    JobPhase.SUCCEEDED,
                    ends=(PodEnd("a", succeeded=True, exit_code=0, message=FOUND),),
                )
            ),
        ),
        "only-events-matter": (None, building(JobPhase.RUNNING)),
    },
)
def test_own_writes_are_followed_at_once(expected: float | None, snapshot: Snapshot) -> None:
    """What this reconcile writes may raise no event: the next one is requested."""
    assert expected == decide(snapshot).recheck_after


FAILED = {"finished_at": EPOCH, "ends": (PodEnd("a", succeeded=False, exit_code=3),)}
ME, OTHER = "uid-of-llava", "uid-of-other"


@cases(
    "expected phase made_by owners",
    {
        "mine-failed": (Step.START, JobPhase.FAILED, ME, (ME, OTHER)),
        "mine-waits": (Step.START, JobPhase.PENDING, ME, (ME,)),
        "mine-runs-undisturbed": (Step.RUNNING, JobPhase.RUNNING, ME, (ME,)),
        "of-another-owner": (Step.FAILED, JobPhase.FAILED, OTHER, (ME, OTHER)),
        "its-maker-has-left": (Step.START, JobPhase.FAILED, OTHER, (ME,)),
    },
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


@cases(
    "expected phase",
    {
        "failed": (Step.START, JobPhase.FAILED),
        "waits": (Step.START, JobPhase.PENDING),
        "runs": (Step.RUNNING, JobPhase.RUNNING),
    },
)
def test_changed_terms_make_another_inspection(expected: Step, phase: JobPhase) -> None:
    """An inspection that waits for a node that never comes is made again where it may run."""
    job = inspect_job(phase, **FAILED)
    former = replace(job, annotations={**job.annotations, labels.TERMS_HASH: "former"})
    assert expected == decide(seen(former)).inspect.step


@cases(
    "changed changes",
    {
        "timeout": (True, {"build": {"timeout": "1h"}}),
        "place": (True, {"build": {"nodeSelector": {"a": "b"}}}),
        "image": (True, {"build": {"image": "x/y:1"}}),
        "replicas": (False, {"replicas": 3}),
        "pods": (False, {"runtime": {"podLabels": {"a": "b"}}}),
        "proxy": (True, {"network": {"proxy": {"http": "http://a:1"}}}),
        "services": (False, {"network": {"ipFamilyPolicy": "SingleStack"}}),
    },
)
def test_terms_are_those_of_jobs(changes: dict[str, Any], *, changed: bool) -> None:
    before, after = (job_inputs(spec_of(one), SETTINGS, ME) for one in ({}, changes))
    assert changed == (before != after)


def test_engine_of_others_is_looked_at_again() -> None:
    """A model that has not joined the owners yet learns of no event, so it looks by itself."""
    joining = inspected(engines={ENGINE: EngineState(ConfigState(ENGINE, "uid"))})
    assert decide(joining).recheck_after == 3


def test_result_of_another_engine_is_not_taken() -> None:
    text = BuildResult(fingerprint="f" * 64, manifest_sha256="a" * 64).to_json()
    end = PodEnd("a", succeeded=True, exit_code=0, message=text)
    assert Step.START is decide(building(JobPhase.SUCCEEDED, ends=(end,))).build.step
    plan = decide(inspected()).build_plan
    result = BuildResult(fingerprint=plan.fingerprint, manifest_sha256="a" * 64)
    end = PodEnd("a", succeeded=True, exit_code=0, message=result.to_json())
    assert result == decide(building(JobPhase.RUNNING, ends=(end,))).build.result


@cases(
    "expected text",
    {
        "number": (3, "3"),
        "missing": (1, ""),
        "zero": (1, "0"),
        "no-number": (1, "x"),
        "as-long-as-numbers-may-be": (999_999_999, "999999999"),
        "longer": (1, "1000000000"),
    },
)
def test_attempts_are_read(expected: int, text: str) -> None:
    job = JobState("a", "b", JobPhase.PENDING, EPOCH, annotations={labels.ATTEMPT: text})
    assert expected == attempt_of(job)


def test_the_highest_attempt_is_the_current_one() -> None:
    jobs = [inspect_job(JobPhase.FAILED, attempt) for attempt in (2, 10, 1)]
    assert (jobs[1], None) == (latest(jobs), latest([]))


@cases(
    "data",
    {
        "empty": {},
        "truncated": {FACTS_KEY: "{"},
        "half": {FACTS_KEY: tiny_facts().to_json(), INSPECTION_KEY: "{}"},
    },
)
def test_damaged_records_count_as_missing(data: dict[str, str]) -> None:
    assert None is read_inspection(ConfigState("a", "b", data=data))


def test_another_source_is_inspected_from_the_start() -> None:
    """Facts of another source do not count, and neither does the round they were found in."""
    changed = {"model": {"source": {"persistentVolumeClaim": {"claimName": "other"}}}}
    plan = decide(replace(inspected(), spec=spec_of(changed)))
    assert (plan.inspect.step, plan.inspect.round, plan.inspect.inputs_hash != HASH) == (
        Step.START,
        0,
        True,
    )


@cases(
    "text",
    {
        "empty": "",
        "log": "Traceback",
        "neither-facts-nor-error": "{}",
        "wrong-type": '{"facts": 1}',
    },
)
def test_reports_that_say_nothing(text: str) -> None:
    assert None is read_inspect_result(text)
