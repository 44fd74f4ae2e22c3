"""Reading Jobs: which attempt is the current one, and why one has not started."""

from collections.abc import Iterable

from mm_api import labels
from mm_api.conditions import Reason
from mm_operator.model import JobState


def attempt_of(job: JobState) -> int:
    """Return the number of a Job's attempt; a Job that does not say is the first."""
    text = job.annotations.get(labels.ATTEMPT, "")
    return int(text) if text.isdecimal() and int(text) > 0 else 1


def latest(jobs: Iterable[JobState]) -> JobState | None:
    """Return the Job of the last attempt, or None."""
    return max(jobs, key=lambda job: (attempt_of(job), job.created, job.name), default=None)


def pending(job: JobState, otherwise: Reason) -> tuple[str, str]:
    """Return reason and sentence for a Job none of whose pods runs."""
    if job.deleting:
        return otherwise, "its former Job is being deleted"
    if "exceeded quota" in job.waiting:
        return Reason.QUOTA_EXCEEDED, job.waiting
    return otherwise, job.waiting or f"it waits for its {'next ' if job.ends else ''}pod"
