"""From what is known of a model to the member of its slot (`spec.runtime.gpu.slot`). Pure."""

from collections.abc import Iterable

from mm_api.v1alpha1 import MultimodalModelSpec, duration
from mm_operator.autoscaling import SlotMember
from mm_operator.scaling.model_autoscaler import ModelAutoscaler, Requested
from mm_operator.scaling.pods import ScaledPod
from mm_operator.scaling.view import moment_of

_OVERDUE_SECONDS = 60.0
"""A pod that has not ended so long after its grace period is on a node that is gone, as its GPU."""


def slot_member(
    name: str,
    spec: MultimodalModelSpec,
    requested: Requested,
    autoscaler: ModelAutoscaler,
    *,
    pods: Iterable[ScaledPod],
    held: int,
    waited_seconds: float,
    at: float,
) -> SlotMember:
    """Return the member that a model is.

    `held`, `waited_seconds`: requests that wait in routers, and how long the oldest of them has.
    `at`: Unix seconds.
    """
    there = [one for one in pods if not one.ended and not _is_overdue(one, at)]
    given = (moment_of(one) for one in autoscaler.history if one.to_replicas > one.from_replicas)
    ready = [one.ready_at for one in there if one.ready and not one.terminating and one.ready_at]
    return SlotMember(
        name=name,
        replicas=requested.replicas,
        pods=len(there),
        held=held,
        held_since=at - waited_seconds if held else None,
        started_at=next(given, None),
        ready_at=min(ready, default=None),
        start_seconds=autoscaler.cold_starts.seconds(),
        deadline_seconds=duration.parse(spec.rollout.progress_deadline).total_seconds(),
    )


def _is_overdue(pod: ScaledPod, at: float) -> bool:
    return pod.ends_at is not None and at > pod.ends_at + _OVERDUE_SECONDS
