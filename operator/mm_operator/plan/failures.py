"""Why a Job failed: one reason, one sentence, and whether another attempt makes sense.

The last pod that failed says it; what killed the program counts before what the program says.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mm_api.conditions import Reason
from mm_api.contract import ExitCode
from mm_api.documents.build_result import BuildFailure, BuildReason, BuildResult
from mm_api.sentences import joined
from mm_operator.model import JobState, PodEnd
from mm_operator.plan.records import parse, read_inspect_result
from mm_operator.plan.start_errors import lacking, lacks_program

LOG_LINES = 10
"""Last log lines that a message carries: enough for a Python error, short enough for describe."""

_EVICTIONS = frozenset({"Evicted", "Preempting", "NodeLost", "NodeShutdown", "Terminated"})
"""Reasons the kubelet and the pod garbage collector give pods that were not at fault."""


_NEVER_BEGAN = (
    "the pod was on its node until its deadline and no container of it began: it waited for a "
    "volume or an image; see the Events of the Job's pods"
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a Job failed."""

    reason: str
    message: str
    retryable: bool
    result: BuildResult | None = None
    disrupted: bool = False
    """The cluster took the pod and gives the Job another one: nothing is wrong with it."""

    @property
    def source_changed(self) -> bool:
        return self.reason == BuildReason.SOURCE_CHANGED


@dataclass(frozen=True, slots=True)
class _Job:
    """What is said of the Jobs of one kind: each time a reason, and a text around what is known."""

    reported: Callable[[PodEnd], Failure | None]
    """What the program itself wrote."""

    out_of_memory: tuple[Reason, str]
    timed_out: tuple[Reason, str]
    evicted: tuple[Reason, str]
    unexplained: tuple[Reason, str]


def build_failure(job: JobState) -> Failure:
    """Return why a build Job failed, or why its last pod did while it is being retried."""
    return _explained(job, _BUILD)


def inspect_failure(job: JobState) -> Failure:
    return _explained(job, _INSPECT)


def failure_so_far(job: JobState, explain: Callable[[JobState], Failure]) -> Failure | None:
    """Return why the last pod failed of a Job that continues; None: none did."""
    return explain(job) if any(not end.succeeded for end in job.ends) else None


def cause_of(failure: Failure | None) -> tuple[str, str] | None:
    """Return reason and message for a person while the Job continues; None: none is needed."""
    if failure is None or failure.disrupted:
        return None
    return failure.reason, joined(failure.message, "it is retried automatically")


def _explained(job: JobState, kind: _Job) -> Failure:
    failed = [end for end in job.ends if not end.succeeded]
    if not failed:
        said = job.message or job.reason or "it left no pod behind"
        return Failure(kind.unexplained[0], f"the Job failed: {said}", retryable=True)
    end = failed[-1]
    report, timed_out = kind.reported(end), _timed_out(job, end)
    if lacks_program(end.reason, end.message):
        return Failure(Reason.IMAGE_NOT_USABLE, lacking("spec.build.image"), retryable=False)
    if report and kind is _INSPECT:
        return report  # a build's is of a step, which may have been killed
    if timed_out and end.reason != "OOMKilled" and not end.began:
        return Failure(Reason.VOLUME_UNAVAILABLE, _NEVER_BEGAN, retryable=True)
    disrupted = end.disrupted or end.pod_reason in _EVICTIONS
    found = kind.out_of_memory if end.reason == "OOMKilled" else None
    found = found or (kind.timed_out if timed_out else None)
    found = found or (kind.evicted if disrupted else None)
    if report and not found:
        return report
    reason, text = found or kind.unexplained
    return Failure(
        reason,
        text.format(
            step=_step(end),
            code=_code(end),
            why=end.pod_reason or "disruption of its node",
            said=f": {end.pod_message.strip().rstrip('.')}" if end.pod_message else "",
            tail=_tail(end),
        ),
        retryable=True,
        result=parse(BuildResult, end.message) if found else None,
        disrupted=found is kind.evicted,
    )


def _timed_out(job: JobState, end: PodEnd) -> bool:
    return end.exit_code == ExitCode.TIMED_OUT or "DeadlineExceeded" in {end.pod_reason, job.reason}


def _build_reported(end: PodEnd) -> Failure | None:
    failure = _reported(end)
    if failure is None:
        return None
    return Failure(
        failure.reason,
        f"step {failure.step} ended with exit code {_code(end)}: {failure.message}{_tail(end)}",
        retryable=failure.retryable,
        result=parse(BuildResult, end.message),
    )


def _inspect_reported(end: PodEnd) -> Failure | None:
    result = read_inspect_result(end.message)
    if result is None or result.error is None:
        return None
    return Failure(result.error.reason, result.error.message, retryable=True)


_BUILD = _Job(
    _build_reported,
    (
        Reason.BUILD_OUT_OF_MEMORY,
        (
            "{step} was killed: it needed more memory than spec.build.resources.limits.memory "
            "allows (exit code {code}); raise the limit{tail}"
        ),
    ),
    (
        Reason.BUILD_TIMED_OUT,
        "{step} ran longer than spec.build.timeout (exit code {code}); raise the timeout{tail}",
    ),
    (
        Reason.BUILD_EVICTED,
        "{step} lost its pod ({why}, exit code {code}{said}); finished steps are kept{tail}",
    ),
    (Reason.BUILD_FAILED, "{step} ended with exit code {code} and no report{tail}"),
)
_INSPECT = _Job(
    _inspect_reported,
    (
        Reason.INSPECT_FAILED,
        "the inspection was killed: it needed more memory than its limit{tail}",
    ),
    (Reason.INSPECT_FAILED, "the inspection timed out: check that the source is reachable{tail}"),
    (Reason.INSPECT_FAILED, "the inspection lost its pod ({why}{said})"),
    (Reason.INSPECT_FAILED, "the inspection ended with exit code {code} and no report{tail}"),
)


def _reported(end: PodEnd) -> BuildFailure | None:
    result = parse(BuildResult, end.message)
    return result.failure if result else None


def _code(end: PodEnd) -> str:
    """Return the exit code of the step when it is known: the build's own only says that one failed.

    A kernel that is short of memory kills the biggest process, the step, and not the build.
    """
    failure = _reported(end)
    code = end.exit_code if failure is None or failure.exit_code is None else failure.exit_code
    return "unknown" if code is None else str(code)


def _step(end: PodEnd) -> str:
    failure = _reported(end)
    return f"step {failure.step}" if failure else "the build"


def _tail(end: PodEnd) -> str:
    """Return the last log lines, each after a line break.

    The step's own lines when the build reported them; none of a build that ended well on a node
    that was given up meanwhile. A termination message that is no document is the log's end: the
    kubelet's FallbackToLogsOnError.
    """
    result = parse(BuildResult, end.message)
    if result:
        lines = result.failure.log_tail if result.failure else []
    else:
        lines = list(end.log_tail) or end.message.splitlines()
    return "".join(f"\n{line}" for line in lines[-LOG_LINES:])
