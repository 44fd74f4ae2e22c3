"""How a Job failed or why it waits: one reason, one sentence, and when another attempt is made."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mm_api import labels
from mm_api.documents.build_result import BuildFailure, BuildReason, BuildResult
from mm_api.documents.model_facts import InspectError, InspectReason, InspectResult
from mm_operator import names
from mm_operator.model import JobPhase, JobState, Observed, Outcome, PodEnd, Snapshot
from mm_operator.plan import decide
from mm_operator.plan.failures import build_failure, inspect_failure
from mm_operator.plan.inspection import inputs_hash
from mm_operator.plan.retry import BUILD, INSPECT, Backoff
from mm_operator.status.derive import derive
from support.cases import cases
from support.models import EPOCH, snapshot_of, spec_of
from support.staged import inspected

REPORT = BuildResult(
    fingerprint="a" * 64,
    failure=BuildFailure(
        reason=BuildReason.STEP_FAILED,
        step="export",
        exit_code=1,
        message="no space left",
        log_tail=[f"line {number}" for number in range(12)],
        retryable=True,
    ),
).to_json()
UNDER_WAY = BuildResult(
    fingerprint="a" * 64,
    failure=BuildFailure(
        reason=BuildReason.STEP_FAILED,
        step="export",
        message="Step export was running.",
        log_tail=["the last line"],
        retryable=True,
    ),
).to_json()
NO_PROGRAM = 'runc create failed: exec: "mm-runtime": executable file not found in $PATH: unknown'
DONE = BuildResult(fingerprint="a" * 64, manifest_sha256="b" * 64).to_json()
REFUSAL = InspectResult(
    error=InspectError(reason=InspectReason.PICKLE_REFUSED, message="weights are pickle files")
).to_json()


def failed(end: PodEnd | None, reason: str = "BackoffLimitExceeded", message: str = "") -> JobState:
    ends = (PodEnd("first", succeeded=False, exit_code=9), end) if end else ()
    return JobState("job", "uid", JobPhase.FAILED, EPOCH, reason=reason, message=message, ends=ends)


def bad(**fields: object) -> PodEnd:
    values = {"pod": "last", "succeeded": False, "exit_code": 1} | fields
    return PodEnd(**values)  # type: ignore[arg-type]


@cases(
    "job reason words",
    {
        "not-started-for-another-reason": (
            failed(bad(exit_code=128, reason="StartError", message="cgroup: out of memory")),
            "BuildFailed",
            "the build ended with exit code 128 and no report\ncgroup: out of memory",
        ),
        "a-program-that-says-the-same": (
            failed(bad(exit_code=1, reason="Error", message=NO_PROGRAM)),
            "BuildFailed",
            "exit code 1 and no report",
        ),
        "out-of-memory-in-a-step": (
            failed(bad(exit_code=137, reason="OOMKilled", message=REPORT)),
            "BuildOutOfMemory",
            (
                "step export was killed: it needed more memory than "
                "spec.build.resources.limits.memory allows (exit code 1); raise the limit\nline 2\n"
            ),
        ),
        "timed-out-in-a-step": (
            failed(bad(exit_code=143, pod_reason="DeadlineExceeded", message=REPORT)),
            "BuildTimedOut",
            (
                "step export ran longer than spec.build.timeout (exit code 1); raise the timeout\n"
                "line 2\n"
            ),
        ),
        "ended-by-its-own-limit": (
            failed(bad(exit_code=124, message=REPORT)),
            "BuildTimedOut",
            (
                "step export ran longer than spec.build.timeout (exit code 1); raise the timeout\n"
                "line 2\n"
            ),
        ),
        "node-drained-in-a-step": (
            failed(bad(exit_code=143, disrupted=True, message=REPORT)),
            "BuildEvicted",
            "(disruption of its node, exit code 1); finished steps are kept\nline 2\n",
        ),
        "out-of-memory-of-the-entire-container": (
            failed(bad(exit_code=137, reason="OOMKilled", message=UNDER_WAY)),
            "BuildOutOfMemory",
            "allows (exit code 137); raise the limit\nthe last line",
        ),
        "killed-from-outside": (
            failed(bad(exit_code=137, message=UNDER_WAY)),
            "StepFailed",
            "step export ended with exit code 137: Step export was running.\nthe last line",
        ),
        "pod-timed-out": (
            failed(bad(pod_reason="DeadlineExceeded", exit_code=None)),
            "BuildTimedOut",
            "the build ran longer than spec.build.timeout (exit code unknown)",
        ),
        "never-began": (
            failed(bad(pod_reason="DeadlineExceeded", exit_code=None, began=False)),
            "VolumeUnavailable",
            "no container of it began: it waited for a volume or an image",
        ),
        "job-timed-out": (
            failed(bad(), reason="DeadlineExceeded"),
            "BuildTimedOut",
            "(exit code 1)",
        ),
        "evicted": (
            failed(bad(pod_reason="Evicted", pod_message="Out of disk. ", exit_code=137)),
            "BuildEvicted",
            "lost its pod (Evicted, exit code 137: Out of disk); finished",
        ),
        "node-lost": (
            failed(bad(disrupted=True)),
            "BuildEvicted",
            "lost its pod (disruption of its node, exit code 1)",
        ),
        "ended-well-on-a-lost-node": (
            failed(bad(exit_code=0, disrupted=True, message=DONE)),
            "BuildEvicted",
            "(disruption of its node, exit code 0); finished steps are kept",
        ),
        "reported-with-ten-lines": (
            failed(bad(message=REPORT)),
            "StepFailed",
            "step export ended with exit code 1: no space left\nline 2\n",
        ),
        "log-in-the-message": (
            failed(bad(message="Traceback\nValueError: x")),
            "BuildFailed",
            "ended with exit code 1 and no report\nTraceback\nValueError: x",
        ),
        "log-beside-the-message": (
            failed(bad(log_tail=("one", "two"))),
            "BuildFailed",
            "and no report\none\ntwo",
        ),
        "no-pod-is-left": (
            failed(None, message="it has reached the limit"),
            "BuildFailed",
            "the Job failed: it has reached the limit",
        ),
        "nothing-is-known": (failed(None, reason=""), "BuildFailed", "it left no pod behind"),
    },
)
def test_build_failures(job: JobState, reason: str, words: str) -> None:
    """The last failed pod decides; the message carries step, exit code and last log lines."""
    failure = build_failure(job)
    assert (reason, True, True) == (failure.reason, words in failure.message, failure.retryable)


def test_an_image_without_the_program_is_not_tried_again() -> None:
    """The same image has no `mm-runtime` the next time either."""
    failure = build_failure(failed(bad(exit_code=128, reason="StartError", message=NO_PROGRAM)))

    assert (failure.reason, failure.retryable) == ("ImageNotUsable", False)
    assert "set spec.build.image to it" in failure.message


@cases(
    "job reason words",
    {
        "refused": (
            failed(bad(exit_code=3, message=REFUSAL)),
            "PickleRefused",
            "weights are pickle files",
        ),
        "stock-image": (
            failed(bad(exit_code=128, reason="StartError", message=NO_PROGRAM)),
            "ImageNotUsable",
            "the image has no program mm-runtime",
        ),
        "out-of-memory": (failed(bad(reason="OOMKilled")), "InspectFailed", "more memory"),
        "timed-out": (failed(bad(pod_reason="DeadlineExceeded")), "InspectFailed", "timed out"),
        "never-began": (
            failed(bad(pod_reason="DeadlineExceeded", began=False)),
            "VolumeUnavailable",
            "no container of it began",
        ),
        "ended-by-its-own-limit": (failed(bad(exit_code=124)), "InspectFailed", "timed out"),
        "unexplained": (
            failed(bad(message="Traceback")),
            "InspectFailed",
            "exit code 1 and no report\nTraceback",
        ),
    },
)
def test_inspect_failures(job: JobState, reason: str, words: str) -> None:
    """A refusal's own reason is kept; everything else says what happened."""
    failure = inspect_failure(job)
    assert (reason, True) == (failure.reason, words in failure.message)


def test_changed_source_is_recognised() -> None:
    report = BuildFailure(
        reason=BuildReason.SOURCE_CHANGED, step="fetch", exit_code=4, message="", retryable=False
    )
    text = BuildResult(fingerprint="a" * 64, failure=report).to_json()
    assert (
        build_failure(failed(bad(message=text))).source_changed,
        build_failure(failed(bad(message=REPORT))).source_changed,
    ) == (True, False)


DELAYS = Backoff(first=30, longest=600)


@cases(
    "attempt passed left",
    {
        "first": (1, 0, 30),
        "doubled": (2, 0, 60),
        "doubled-again": (5, 0, 480),
        "longest": (6, 0, 600),
        "no-overflow": (10_000, 0, 600),
        "a-part-is-over": (2, 45, 15),
        "due": (2, 61, 0),
    },
)
def test_delays_grow_and_count_from_the_end(attempt: int, passed: int, left: int) -> None:
    now = EPOCH + timedelta(seconds=passed)
    assert DELAYS.seconds_left(attempt=attempt, finished_at=EPOCH, now=now) == left


def test_an_unknown_end_is_now() -> None:
    assert DELAYS.seconds_left(attempt=1, finished_at=None, now=EPOCH) == 30


def test_builds_are_tried_less_often_than_inspections() -> None:
    """A build may hold a GPU for an hour."""
    for attempt in range(1, 12):
        inspection, build = (
            delays.seconds_left(attempt=attempt, finished_at=EPOCH, now=EPOCH)
            for delays in (INSPECT, BUILD)
        )
        assert build > inspection


SENTENCE = "The repository cannot be reached (ConnectError)."


def inspecting(phase: JobPhase, **fields: Any) -> Snapshot:
    hash_ = inputs_hash(spec_of(), 0)
    marks = {labels.INPUTS_HASH: hash_, labels.ATTEMPT: "1"}
    name = names.inspect_job("llava", hash_, 1)
    job = JobState(name, "uid", phase, EPOCH, annotations=marks, **fields)
    return snapshot_of(observed=Observed(jobs={job.name: job}))


def building(phase: JobPhase, **fields: Any) -> Snapshot:
    """Return a model with its first build Job."""
    snapshot, plan = inspected()
    marks = {labels.ATTEMPT: "1"}
    job = JobState(f"{plan.engine_config}-1", "uid", phase, EPOCH, annotations=marks, **fields)
    state = snapshot.observed.engines[plan.engine_config]
    engines = {plan.engine_config: replace(state, jobs=(job,))}
    return replace(snapshot, observed=replace(snapshot.observed, engines=engines))


def reported(snapshot: Snapshot) -> dict[str, tuple[str, str, str]]:
    """Return status, reason and message of each condition."""
    status = derive(snapshot, decide(snapshot), Outcome())
    return {
        one["type"]: (one["status"], one["reason"], one["message"]) for one in status["conditions"]
    }


def inspect_end() -> PodEnd:
    error = InspectError(reason=InspectReason.SOURCE_UNAVAILABLE, message=SENTENCE)
    return PodEnd("a", succeeded=False, exit_code=3, message=InspectResult(error=error).to_json())


def build_end(snapshot: Snapshot) -> PodEnd:
    plan = decide(snapshot).build_plan
    assert plan is not None
    failure = BuildFailure(
        reason="StoreNotWritable", step="fetch", exit_code=4, message=SENTENCE, retryable=True
    )
    result = BuildResult(fingerprint=plan.fingerprint, failure=failure)
    return PodEnd("a", succeeded=False, exit_code=4, message=result.to_json())


def test_the_first_failed_inspection_reports_its_cause() -> None:
    found = reported(inspecting(JobPhase.PENDING, failed_pods=1, ends=(inspect_end(),)))
    cause = "The repository cannot be reached (ConnectError); it is retried automatically"
    waits = ("False", "SourceUnavailable", f"{cause}: it waits for its next pod")
    assert (found["Ready"], found["Planned"], found["Degraded"]) == (
        waits,
        waits,
        ("True", "SourceUnavailable", cause),
    )


def test_the_first_failed_build_reports_its_cause() -> None:
    end = build_end(building(JobPhase.PENDING))
    found = reported(building(JobPhase.PENDING, failed_pods=1, ends=(end,)))
    cause = (
        "step fetch ended with exit code 4: The repository cannot be reached (ConnectError); it is "
        "retried automatically"
    )
    waits = ("False", "StoreNotWritable", f"{cause}: it waits for its next pod")
    assert (found["Ready"], found["EngineBuilt"], found["Degraded"]) == (
        waits,
        waits,
        ("True", "StoreNotWritable", cause),
    )


@cases(
    "snapshot",
    {
        "inspection": inspecting(JobPhase.RUNNING, failed_pods=1, ends=(inspect_end(),)),
        "build": building(
            JobPhase.RUNNING, failed_pods=1, ends=(build_end(building(JobPhase.PENDING)),)
        ),
    },
)
def test_the_cause_stays_while_the_next_pod_runs(snapshot: Snapshot) -> None:
    """Degraded does not go and come again with each attempt, and Ready says what it was."""
    found = reported(snapshot)
    status, _, message = found["Degraded"]
    assert (status, "cannot be reached" in message, "before: " in found["Ready"][2]) == (
        "True",
        True,
        True,
    )


def test_an_evicted_build_needs_no_person() -> None:
    """The cluster took its pod and gives it another one."""
    end = PodEnd("a", succeeded=False, exit_code=143, pod_reason="Evicted")
    found = reported(building(JobPhase.PENDING, failed_pods=1, ends=(end,)))
    assert (found["Degraded"][:2], found["EngineBuilt"][1]) == (
        ("False", "AsExpected"),
        "BuildEvicted",
    )


CLAIM, CONTAINER, REFUSED = "PodsUnschedulable", "CreateContainerConfigError", "FailedCreate"
FORBIDDEN = 'Error creating: pods "a" is forbidden: '


@cases(
    "waiting reason",
    {
        "claim": ('0/1 nodes are available: persistentvolumeclaim "nope" not found.', CLAIM),
        "volume": (
            'persistentvolumeclaim "nope" bound to non-existent persistentvolume "pv"',
            CLAIM,
        ),
        "secret": (f'{CONTAINER}: secret "nokeys" not found', CONTAINER),
        "configmap": (f'{CONTAINER}: configmap "none" not found', CONTAINER),
        "key": (f"{CONTAINER}: couldn't find key token in Secret demo/keys", CONTAINER),
        "service-account": (
            (
                f"{FORBIDDEN}error looking up service account demo/absent: serviceaccount "
                '"absent" not found'
            ),
            REFUSED,
        ),
        "priority-class": (f"{FORBIDDEN}no PriorityClass with name urgent was found", REFUSED),
        "runtime-class": (f'{FORBIDDEN}pod rejected: RuntimeClass "gvisor" not found', REFUSED),
        "hook": ('Error creating: admission webhook "w" denied the request: no team', REFUSED),
    },
)
@pytest.mark.parametrize("stage", [inspecting, building], ids=["inspection", "build"])
def test_what_is_missing_needs_a_person(stage: Any, waiting: str, reason: str) -> None:
    """A name that leads nowhere does not come by waiting."""
    found = reported(stage(JobPhase.PENDING, waiting=waiting))
    named = waiting.removeprefix(f"{CONTAINER}: ").rstrip(".")
    assert (found["Ready"][1], found["Degraded"][:2], named in found["Degraded"][2]) == (
        reason,
        ("True", reason),
        True,
    )


@pytest.mark.parametrize(
    "waiting",
    [
        "ErrImagePull: no such image",
        "ImagePullBackOff: Back-off pulling image",
        "InvalidImageName: x",
        "ErrImageNeverPull: x",
    ],
)
@pytest.mark.parametrize("stage", [inspecting, building], ids=["inspection", "build"])
def test_an_image_that_cannot_be_pulled_needs_a_person(stage: Any, waiting: str) -> None:
    found = reported(stage(JobPhase.PENDING, waiting=waiting))
    assert (found["Degraded"][:2], "spec.build.image" in found["Degraded"][2]) == (
        ("True", "ImagePullFailed"),
        True,
    )


@cases(
    "waiting",
    {
        "no-room-yet": "0/3 nodes are available: 3 Insufficient cpu.",
        "the-claim-that-the-operator-makes": (
            '0/1 nodes are available: persistentvolumeclaim "multimodal-store" not found.'
        ),
        "nothing-known": "",
    },
)
def test_what_comes_by_waiting_needs_no_person(waiting: str) -> None:
    """An autoscaler adds nodes, and the operator's own claim is on its way."""
    found = reported(building(JobPhase.PENDING, waiting=waiting))
    assert (found["Degraded"][:2], found["EngineBuilt"][1]) == (
        ("False", "AsExpected"),
        "BuildPending",
    )
