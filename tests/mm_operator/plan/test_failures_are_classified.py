"""How a Job failed or why it waits: one reason, one sentence, and when another attempt is made."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from mm_api import labels
from mm_api.documents.build_result import BuildFailure, BuildReason, BuildResult
from mm_api.documents.model_facts import InspectError, InspectReason, InspectResult
from mm_operator import names
from mm_operator.model import JobPhase, JobState, Observed, Outcome, PodEnd, Snapshot
from mm_operator.plan import decide
from mm_operator.plan.failures import build_failure, inspect_failure
from mm_operator.plan.inspection import inputs_hash
from mm_operator.plan.jobs import BUILD, INSPECT, Backoff
from mm_operator.status.derive import derive
from support.cases import cases
from support.golden import Golden
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


BUILDS = {
    "not-started-for-another-reason": failed(
        bad(exit_code=128, reason="StartError", message="cgroup: out of memory")
    ),
    "a-program-that-says-the-same": failed(bad(exit_code=1, reason="Error", message=NO_PROGRAM)),
    "out-of-memory-in-a-step": failed(bad(exit_code=137, reason="OOMKilled", message=REPORT)),
    "timed-out-in-a-step": failed(
        bad(exit_code=143, pod_reason="DeadlineExceeded", message=REPORT)
    ),
    "ended-by-its-own-limit": failed(bad(exit_code=124, message=REPORT)),
    "node-drained-in-a-step": failed(bad(exit_code=143, disrupted=True, message=REPORT)),
    "out-of-memory-of-the-entire-container": failed(
        bad(exit_code=137, reason="OOMKilled", message=UNDER_WAY)
    ),
    "killed-from-outside": failed(bad(exit_code=137, message=UNDER_WAY)),
    "pod-timed-out": failed(bad(pod_reason="DeadlineExceeded", exit_code=None)),
    "never-began": failed(bad(pod_reason="DeadlineExceeded", exit_code=None, began=False)),
    "job-timed-out": failed(bad(), reason="DeadlineExceeded"),
    "evicted": failed(bad(pod_reason="Evicted", pod_message="Out of disk. ", exit_code=137)),
    "node-lost": failed(bad(disrupted=True)),
    "ended-well-on-a-lost-node": failed(bad(exit_code=0, disrupted=True, message=DONE)),
    "reported-with-ten-lines": failed(bad(message=REPORT)),
    "log-in-the-message": failed(bad(message="Traceback\nValueError: x")),
    "log-beside-the-message": failed(bad(log_tail=("one", "two"))),
    "no-pod-is-left": failed(None, message="it has reached the limit"),
    "nothing-is-known": failed(None, reason=""),
    "no-program": failed(bad(exit_code=128, reason="StartError", message=NO_PROGRAM)),
}


def test_build_failures(golden: Golden) -> None:
    """The last failed pod decides; the message carries step, exit code and last log lines."""
    found = {
        name: [*map(str, (one.reason, one.retryable, one.message))]
        for name, one in ((name, build_failure(job)) for name, job in BUILDS.items())
    }
    golden.check_yaml("build-failures.yaml", found)


INSPECTIONS = {
    "refused": failed(bad(exit_code=3, message=REFUSAL)),
    "stock-image": failed(bad(exit_code=128, reason="StartError", message=NO_PROGRAM)),
    "out-of-memory": failed(bad(reason="OOMKilled")),
    "timed-out": failed(bad(pod_reason="DeadlineExceeded")),
    "never-began": failed(bad(pod_reason="DeadlineExceeded", began=False)),
    "ended-by-its-own-limit": failed(bad(exit_code=124)),
    "unexplained": failed(bad(message="Traceback")),
}


def test_inspect_failures(golden: Golden) -> None:
    found = {
        name: [*map(str, (one.reason, one.message))]
        for name, one in ((name, inspect_failure(job)) for name, job in INSPECTIONS.items())
    }
    golden.check_yaml("inspect-failures.yaml", found)


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
    snapshot, plan = inspected()
    marks = {labels.ATTEMPT: "1"}
    job = JobState(f"{plan.engine_config}-1", "uid", phase, EPOCH, annotations=marks, **fields)
    state = snapshot.observed.engines[plan.engine_config]
    engines = {plan.engine_config: replace(state, jobs=(job,))}
    return replace(snapshot, observed=replace(snapshot.observed, engines=engines))


def reported(snapshot: Snapshot) -> dict[str, str]:
    found = derive(snapshot, decide(snapshot), Outcome())["conditions"]
    return {
        one["type"]: f"{one['status']} {one['reason']}: {one['message']}"
        for one in found
        if one["type"] in {"Ready", "Planned", "EngineBuilt", "Degraded"}
    }


def inspect_end() -> PodEnd:
    error = InspectError(reason=InspectReason.SOURCE_UNAVAILABLE, message=SENTENCE)
    return PodEnd("a", succeeded=False, exit_code=3, message=InspectResult(error=error).to_json())


def build_end(snapshot: Snapshot) -> PodEnd:
    plan = decide(snapshot).build_plan
    failure = BuildFailure(
        reason="StoreNotWritable", step="fetch", exit_code=4, message=SENTENCE, retryable=True
    )
    result = BuildResult(fingerprint=plan.fingerprint, failure=failure)
    return PodEnd("a", succeeded=False, exit_code=4, message=result.to_json())


CONTAINER = "CreateContainerConfigError"
FORBIDDEN = 'Error creating: pods "a" is forbidden: '
WAITING = {
    "claim": '0/1 nodes are available: persistentvolumeclaim "nope" not found.',
    "volume": 'persistentvolumeclaim "nope" bound to non-existent persistentvolume "pv"',
    "secret": f'{CONTAINER}: secret "nokeys" not found',
    "config map": f'{CONTAINER}: configmap "none" not found',
    "key": f"{CONTAINER}: couldn't find key token in Secret demo/keys",
    "service account": f"{FORBIDDEN}error looking up service account demo/absent: serviceaccount "
    '"absent" not found',
    "priority class": f"{FORBIDDEN}no PriorityClass with name urgent was found",
    "runtime class": f'{FORBIDDEN}pod rejected: RuntimeClass "gvisor" not found',
    "webhook": 'Error creating: admission webhook "w" denied the request: no team',
    "no image": "ErrImagePull: no such image",
    "no image, again": "ImagePullBackOff: Back-off pulling image",
    "no name of an image": "InvalidImageName: x",
    "image that must be there": "ErrImageNeverPull: x",
    "node that may come": "0/3 nodes are available: 3 Insufficient cpu.",
    "claim that the operator makes": "0/1 nodes are available: persistentvolumeclaim "
    '"multimodal-store" not found.',
    "nothing known": "",
}
EVICTED = PodEnd("a", succeeded=False, exit_code=143, pod_reason="Evicted")


def test_causes(golden: Golden) -> None:
    """The first pod of a Job that knows it reports it, and it stays while the next one runs."""
    end = build_end(building(JobPhase.PENDING))
    stages = {
        "inspection failed once": inspecting(
            JobPhase.PENDING, failed_pods=1, ends=(inspect_end(),)
        ),
        "inspected again": inspecting(JobPhase.RUNNING, failed_pods=1, ends=(inspect_end(),)),
        "build failed once": building(JobPhase.PENDING, failed_pods=1, ends=(end,)),
        "built again": building(JobPhase.RUNNING, failed_pods=1, ends=(end,)),
        "build evicted": building(JobPhase.PENDING, ends=(EVICTED,)),
    }
    for name, waiting in WAITING.items():
        stages[f"inspection: {name}"] = inspecting(JobPhase.PENDING, waiting=waiting)
        stages[f"build: {name}"] = building(JobPhase.PENDING, waiting=waiting)
    found = {name: reported(stage) for name, stage in stages.items()}
    golden.check_yaml("causes.yaml", found)
