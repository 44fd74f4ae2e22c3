"""How a Job failed becomes one reason, one sentence, and whether another attempt makes sense."""

from mm_api.documents.build_result import BuildFailure, BuildReason, BuildResult
from mm_api.documents.model_facts import InspectError, InspectReason, InspectResult
from mm_operator.model import JobPhase, JobState, PodEnd
from mm_operator.plan.failures import build_failure, inspect_failure
from support.cases import cases
from support.models import EPOCH

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
