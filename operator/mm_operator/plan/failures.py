"""Why a Job failed: one reason, one sentence, and whether another attempt makes sense.

An ordered tuple of checkers looks at the last pod that failed; the first that recognises it wins.
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
        """Return whether the build found another source than was inspected."""
        return self.reason == BuildReason.SOURCE_CHANGED


Checker = Callable[[JobState, PodEnd], Failure | None]


def build_failure(job: JobState) -> Failure:
    """Return why a build Job failed, or why its last pod did while it is being retried."""
    return _first(job, _BUILD_CHECKERS, Reason.BUILD_FAILED)


def inspect_failure(job: JobState) -> Failure:
    """Return why an inspect Job failed."""
    return _first(job, _INSPECT_CHECKERS, Reason.INSPECT_FAILED)


def failure_so_far(job: JobState, explain: Callable[[JobState], Failure]) -> Failure | None:
    """Return why the last pod failed of a Job that continues; None: none did."""
    return explain(job) if any(not end.succeeded for end in job.ends) else None


def cause_of(failure: Failure | None) -> tuple[str, str] | None:
    """Return reason and message for a person while the Job continues; None: none is needed."""
    if failure is None or failure.disrupted:
        return None
    return failure.reason, joined(failure.message, "it is retried automatically")


def _first(job: JobState, checkers: tuple[Checker, ...], otherwise: Reason) -> Failure:
    failed = [end for end in job.ends if not end.succeeded]
    if not failed:
        said = job.message or job.reason or "it left no pod behind"
        return Failure(otherwise, f"the Job failed: {said}", retryable=True)
    hits = (checker(job, failed[-1]) for checker in checkers)
    return next(hit for hit in hits if hit)


def _without_program(_job: JobState, end: PodEnd) -> Failure | None:
    if not lacks_program(end.reason, end.message):
        return None
    return Failure(Reason.IMAGE_NOT_USABLE, lacking("spec.build.image"), retryable=False)


def _build_out_of_memory(_job: JobState, end: PodEnd) -> Failure | None:
    if end.reason != "OOMKilled":
        return None
    return Failure(
        Reason.BUILD_OUT_OF_MEMORY,
        f"{_step(end)} was killed: it needed more memory than spec.build.resources.limits.memory "
        f"allows (exit code {_code(end)}); raise the limit{_tail(end)}",
        retryable=True,
        result=parse(BuildResult, end.message),
    )


def _timed_out(job: JobState, end: PodEnd) -> bool:
    """Return whether the program's own limit ended it, or the far deadline of its pod."""
    return end.exit_code == ExitCode.TIMED_OUT or "DeadlineExceeded" in {end.pod_reason, job.reason}


def _build_timed_out(job: JobState, end: PodEnd) -> Failure | None:
    if not _timed_out(job, end):
        return None
    if not end.began:
        return Failure(Reason.VOLUME_UNAVAILABLE, _NEVER_BEGAN, retryable=True)
    return Failure(
        Reason.BUILD_TIMED_OUT,
        f"{_step(end)} ran longer than spec.build.timeout (exit code {_code(end)}); "
        f"raise the timeout{_tail(end)}",
        retryable=True,
        result=parse(BuildResult, end.message),
    )


def _is_disrupted(end: PodEnd) -> bool:
    return end.disrupted or end.pod_reason in _EVICTIONS


def _build_evicted(_job: JobState, end: PodEnd) -> Failure | None:
    if not _is_disrupted(end):
        return None
    return Failure(
        Reason.BUILD_EVICTED,
        f"{_step(end)} lost its pod ({end.pod_reason or 'disruption of its node'}, exit code "
        f"{_code(end)}{_said(end)}); finished steps are kept{_tail(end)}",
        retryable=True,
        result=parse(BuildResult, end.message),
        disrupted=True,
    )


def _build_reported(_job: JobState, end: PodEnd) -> Failure | None:
    result = parse(BuildResult, end.message)
    failure = result.failure if result else None
    if failure is None:
        return None
    return Failure(
        failure.reason,
        f"step {failure.step} ended with exit code {_code(end)}: {failure.message}{_tail(end)}",
        retryable=failure.retryable,
        result=result,
    )


def _build_unexplained(_job: JobState, end: PodEnd) -> Failure | None:
    return Failure(
        Reason.BUILD_FAILED,
        f"{_step(end)} ended with exit code {_code(end)} and no report{_tail(end)}",
        retryable=True,
    )


def _inspect_reported(_job: JobState, end: PodEnd) -> Failure | None:
    result = read_inspect_result(end.message)
    if result is None or result.error is None:
        return None
    return Failure(result.error.reason, result.error.message, retryable=True)


def _inspect_out_of_memory(_job: JobState, end: PodEnd) -> Failure | None:
    if end.reason != "OOMKilled":
        return None
    return Failure(
        Reason.INSPECT_FAILED,
        f"the inspection was killed: it needed more memory than its limit{_tail(end)}",
        retryable=True,
    )


def _inspect_timed_out(job: JobState, end: PodEnd) -> Failure | None:
    if not _timed_out(job, end):
        return None
    if not end.began:
        return Failure(Reason.VOLUME_UNAVAILABLE, _NEVER_BEGAN, retryable=True)
    return Failure(
        Reason.INSPECT_FAILED,
        f"the inspection timed out: check that the source is reachable{_tail(end)}",
        retryable=True,
    )


def _inspect_evicted(_job: JobState, end: PodEnd) -> Failure | None:
    if not _is_disrupted(end):
        return None
    why = end.pod_reason or "disruption of its node"
    text = f"the inspection lost its pod ({why}{_said(end)})"
    return Failure(Reason.INSPECT_FAILED, text, retryable=True, disrupted=True)


def _inspect_unexplained(_job: JobState, end: PodEnd) -> Failure | None:
    return Failure(
        Reason.INSPECT_FAILED,
        f"the inspection ended with exit code {_code(end)} and no report{_tail(end)}",
        retryable=True,
    )


_BUILD_CHECKERS: tuple[Checker, ...] = (
    _without_program,
    _build_out_of_memory,
    _build_timed_out,
    _build_evicted,
    _build_reported,
    _build_unexplained,
)
_INSPECT_CHECKERS: tuple[Checker, ...] = (
    _without_program,
    _inspect_reported,
    _inspect_out_of_memory,
    _inspect_timed_out,
    _inspect_evicted,
    _inspect_unexplained,
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


def _said(end: PodEnd) -> str:
    return f": {end.pod_message.strip().rstrip('.')}" if end.pod_message else ""


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
