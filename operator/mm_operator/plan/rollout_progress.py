"""What keeps pods from becoming ready: an ordered tuple of checkers, the first hit is reported.

Only pods of the wanted revision are looked at; sentences name containers, never pods.
"""

import re
from collections.abc import Callable, Sequence

from mm_api.conditions import Reason
from mm_operator.model import DeploymentState, PodState
from mm_operator.plan.refusals import is_quota
from mm_operator.plan.start_errors import lacking, lacks_program
from mm_operator.plan.volumes import waits_for_volume

Obstacle = tuple[Reason, str]
Checker = Callable[[DeploymentState, tuple[PodState, ...]], Obstacle | None]

_LACKED = re.compile(r"Insufficient ([-./a-zA-Z0-9]*[a-zA-Z0-9])")
"""How the scheduler names a resource that nodes have too little of."""

_NO_DEVICE = "cannot allocate all claims"
"""How it says that a claim's devices are not free."""

_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Waiting reasons of every pod that starts normally."""


def first_obstacle(deployment: DeploymentState, pods: tuple[PodState, ...]) -> Obstacle | None:
    """Return the reason and the sentence for the first obstacle, or None."""
    current = _current(deployment, pods)
    hits = (check(deployment, current) for check in _CHECKERS)
    hit = next((hit for hit in hits if hit), None)
    if hit is None or hit[0] is not Reason.PODS_UNSCHEDULABLE:
        return hit
    former = [pod for pod in pods if pod.serving_hash != deployment.serving_hash]
    return _held_by_itself(hit, former) or hit


def _held_by_itself(hit: Obstacle, former: Sequence[PodState]) -> Obstacle | None:
    """Return that pods of the former revision hold what a pod waits for; None: none does."""
    reason, message = hit
    lacked = sorted(set(_LACKED.findall(message)))
    lacked += ["the devices that it claims"] if _NO_DEVICE in message else []
    staying = sum(not pod.terminating for pod in former)
    if not lacked or not former:
        return None
    held = ", ".join(lacked)
    if not staying:
        return Reason.PODS_STARTING, f"pods of the former revision hold {held} until they ended"
    pods = "1 pod" if staying == 1 else f"{staying} pods"
    return reason, (
        f"{message} This model's own {pods} of the former revision hold{'s' * (staying == 1)} "
        f"{held} until the new one answers: set spec.rollout.strategy to Recreate, or "
        "spec.rollout.maxSurge to 0 and maxUnavailable to 1, which need no spare room and leave "
        "replicas missing meanwhile; or add room"
    )


def _current(deployment: DeploymentState, pods: tuple[PodState, ...]) -> tuple[PodState, ...]:
    return tuple(
        pod for pod in pods if pod.serving_hash == deployment.serving_hash and not pod.terminating
    )


def starts_in_progress(deployment: DeploymentState, pods: tuple[PodState, ...]) -> str:
    """Return what pods of the wanted revision do that run and are not ready; empty: there are none.

    A moment is reported, not a duration, so that a status is written when something happens.
    """
    starts = [pod.start for pod in _current(deployment, pods) if pod.start]
    described = []
    for phase in ("Loading", "WarmingUp"):
        alike = [start.since for start in starts if start.phase == phase]
        since = min(filter(None, alike), default=None)
        if alike:
            moment = f" since {since:%Y-%m-%dT%H:%M:%SZ}" if since else ""
            described.append(f"{len(alike)} {phase}{moment}")
    return ", ".join(described)


def _refused(deployment: DeploymentState, _pods: tuple[PodState, ...]) -> Obstacle | None:
    if not deployment.replica_failure:
        return None
    quota = is_quota(deployment.replica_failure)
    reason = Reason.QUOTA_EXCEEDED if quota else Reason.PODS_CRASHING
    return reason, f"pods are refused: {deployment.replica_failure}"


def _unschedulable(_deployment: DeploymentState, pods: tuple[PodState, ...]) -> Obstacle | None:
    found = next((pod for pod in pods if pod.unschedulable), None)
    if found is None:
        return None
    return Reason.PODS_UNSCHEDULABLE, f"no pod can be scheduled: {found.unschedulable}"


def _without_volume(_deployment: DeploymentState, pods: tuple[PodState, ...]) -> Obstacle | None:
    found = next((pod.volume for pod in pods if pod.volume and not pod.ready), None)
    return (Reason.VOLUME_UNAVAILABLE, waits_for_volume(found)) if found else None


def _without_program(_deployment: DeploymentState, pods: tuple[PodState, ...]) -> Obstacle | None:
    if not any(_lacks_program(pod) for pod in pods if not pod.ready):
        return None
    return Reason.IMAGE_NOT_USABLE, lacking("spec.runtime.image")


def _lacks_program(pod: PodState) -> bool:
    ended, _, message = pod.last_end.partition(" ")
    return lacks_program(pod.waiting, pod.waiting_message) or lacks_program(ended, message)


def _without_gpu(_deployment: DeploymentState, pods: tuple[PodState, ...]) -> Obstacle | None:
    found = next((pod.gpu for pod in pods if pod.gpu and not pod.ready), None)
    if found is None:
        return None
    return Reason.GPU_OUT_OF_MEMORY if found.usable else Reason.GPU_UNUSABLE, found.message


def _crashing(_deployment: DeploymentState, pods: tuple[PodState, ...]) -> Obstacle | None:
    found = next((pod for pod in pods if not pod.ready and pod.waiting not in _STARTING), None)
    if found is None:
        return None
    details = "; ".join(filter(None, (found.waiting_message, found.last_end)))
    said = f": {details}" if details else ""
    return Reason.PODS_CRASHING, f"container {found.container}: {found.waiting}{said}"


def _restarted(_deployment: DeploymentState, pods: tuple[PodState, ...]) -> Obstacle | None:
    found = next((pod for pod in pods if not pod.ready and pod.last_end), None)
    if found is None:
        return None
    text = f"container {found.container} was restarted: {found.last_end}"
    return Reason.PODS_CRASHING, text


def _stalled(deployment: DeploymentState, _pods: tuple[PodState, ...]) -> Obstacle | None:
    if not deployment.stalled:
        return None
    return Reason.PODS_STARTING, f"the rollout makes no progress: {deployment.stalled}"


_CHECKERS: tuple[Checker, ...] = (
    _refused,
    _unschedulable,
    _without_volume,
    _without_program,
    _without_gpu,
    _crashing,
    _restarted,
    _stalled,
)
