"""From a Job and its pods to the record the planner reads. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from mm_operator.cluster.pods import condition, moment, pod_end, running, why_not_running
from mm_operator.model import JobPhase, JobState

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def job_state(
    job: Mapping[str, Any],
    pods: Sequence[Mapping[str, Any]],
    *,
    log_tails: Mapping[str, tuple[str, ...]],
    progress: Mapping[str, str] = MappingProxyType({}),
    blocked: str = "",
) -> JobState:
    """Return where a Job is.

    `log_tails`: pod uid -> last lines, for pods that left no message. `progress`: pod uid -> what a
    running build last said. `blocked`: why no pod could be created, as the Job controller's events
    say.
    """
    metadata, status = job["metadata"], job.get("status") or {}
    own = [pod for pod in pods if _belongs(pod, metadata["uid"])]
    ends = [pod_end(pod, log_tails.get(pod["metadata"]["uid"], ())) for pod in own]
    phase, closing = _phase(status, own)
    now = max((pod for pod in own if running(pod)[1]), key=_created, default=None)
    waiting = next(filter(None, map(why_not_running, own)), "") or (blocked if not own else "")
    return JobState(
        name=metadata["name"],
        uid=metadata["uid"],
        phase=phase,
        created=moment(metadata["creationTimestamp"]) or _EPOCH,
        finished_at=moment(closing.get("lastTransitionTime")),
        annotations=metadata.get("annotations") or {},
        labels=metadata.get("labels") or {},
        failed_pods=status.get("failed", 0),
        reason=closing.get("reason", "") if phase is JobPhase.FAILED else "",
        message=closing.get("message", "") if phase is JobPhase.FAILED else "",
        waiting=waiting if phase is JobPhase.PENDING else "",
        started_at=running(now)[1] if now else None,
        progress=progress.get(now["metadata"]["uid"], "") if now else "",
        ends=tuple(
            sorted(
                (end for end in ends if end is not None),
                key=lambda end: (end.finished_at or _EPOCH, end.pod),
            )
        ),
        deleting="deletionTimestamp" in metadata,
        namespace=metadata.get("namespace", ""),
        owner_uid=next((one["uid"] for one in metadata.get("ownerReferences") or ()), ""),
    )


def _created(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"].get("creationTimestamp", ""))


def _belongs(pod: Mapping[str, Any], uid: str) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == uid for owner in owners)


def _phase(
    status: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]
) -> tuple[JobPhase, Mapping[str, Any]]:
    for kind, phase in (("Complete", JobPhase.SUCCEEDED), ("Failed", JobPhase.FAILED)):
        found = condition(status, kind)
        if found.get("status") == "True":
            return phase, found
    phases = {(pod.get("status") or {}).get("phase") for pod in pods}
    # A pod that ended well is reported before its Job: the Job is as good as done, and not waiting.
    running = not phases.isdisjoint({"Running", "Succeeded"})
    return (JobPhase.RUNNING if running else JobPhase.PENDING), {}
