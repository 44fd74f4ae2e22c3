"""What keeps pods from becoming ready: an ordered tuple of checkers, the first hit is reported.

Only pods of the wanted revision are looked at; sentences name containers, never pods.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from mm_api.conditions import Reason
from mm_operator.model import DeploymentState, PodState
from mm_operator.plan.refusals import is_quota, waits_for_volume
from mm_operator.plan.start_errors import lacking, lacks_program, not_created

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
    former = [pod for pod in pods if pod.serving_hash != deployment.serving_hash]
    deployment = _of_the_revision(deployment, current, former)
    hits = (check(deployment, current) for check in _CHECKERS)
    hit = next((hit for hit in hits if hit), None)
    if hit is None or hit[0] is not Reason.PODS_UNSCHEDULABLE:
        return hit
    return _held_by_itself(hit, former) or hit


def _of_the_revision(
    deployment: DeploymentState, current: Sequence[PodState], former: Sequence[PodState]
) -> DeploymentState:
    """Return a Deployment without what its conditions say of a former revision.

    Before its controller has seen the present spec, all they say is of the former one. Later it
    copies the refusal of any ReplicaSet, and a former one is refused for as long as it wants a pod.
    """
    if deployment.observed_generation < deployment.generation:
        return replace(deployment, replica_failure="", stalled="")
    named = deployment.refused_template
    ours, theirs = ({pod.template for pod in some} - {""} for some in (current, former))
    if named and (ours or theirs):
        own = named in ours if ours else named not in theirs
    else:
        own = not current or (not former and deployment.updated < deployment.wanted)
    return deployment if own else replace(deployment, replica_failure="")


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
    reason = Reason.QUOTA_EXCEEDED if quota else Reason.FAILED_CREATE
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


def _not_created(_deployment: DeploymentState, pods: tuple[PodState, ...]) -> Obstacle | None:
    for pod in pods:
        if not pod.ready and (found := not_created(pod.waiting, pod.waiting_message)):
            return found[0], f"container {pod.container} does not start: {found[1]}"
    return None


def _warmup_failed(_deployment: DeploymentState, pods: tuple[PodState, ...]) -> Obstacle | None:
    found = next((pod.start.problem for pod in pods if pod.start and pod.start.problem), None)
    if found is None:
        return None
    return Reason.WARMUP_FAILED, f"the warm-up fails each time: {found}"


def _crashing(_deployment: DeploymentState, pods: tuple[PodState, ...]) -> Obstacle | None:
    for pod in pods:
        backs_off = pod.waiting in _STARTING | {"CrashLoopBackOff"}
        if pod.ready or not (pod.last_end or pod.waiting not in _STARTING):
            continue
        # The same words while it waits for its next start and while it tries.
        if pod.last_end and backs_off:
            text = f"container {pod.container} was restarted: {pod.last_end}"
        else:
            said = filter(None, (pod.waiting_message, pod.last_end))
            text = ": ".join(
                filter(None, (f"container {pod.container}: {pod.waiting}", "; ".join(said)))
            )
        return Reason.PODS_CRASHING, text
    return None


def _stalled(deployment: DeploymentState, _pods: tuple[PodState, ...]) -> Obstacle | None:
    if not deployment.stalled:
        return None
    return Reason.PODS_STARTING, f"the rollout makes no progress: {deployment.stalled}"


_CHECKERS: tuple[Checker, ...] = (
    _unschedulable,
    _without_volume,
    _without_program,
    _without_gpu,
    _not_created,
    _warmup_failed,
    _crashing,
    _refused,
    _stalled,
)
