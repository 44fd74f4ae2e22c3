"""Whether a rollout is the operator's doing and waits for its turn, and where it stands in it.

A user's change rolls out at once. What changes without one (the runtime image of a new chart, the
installation's network, another way to plan) changes every model at one moment.
"""

from collections.abc import Mapping
from typing import Any

from mm_api.conditions import Reason
from mm_api.sentences import count
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.digests import digest, stated
from mm_operator.model import DeploymentState, RolloutDecision, RolloutTurn, Snapshot, Step
from mm_operator.plan.rollout_progress import first_obstacle

_NOT_OF_PODS = frozenset(
    {
        "replicas",
        "autoscaling",
        "rollout",
        "build.resources",
        "build.retries",
        "build.store.gcAfter",
        "build.timeout",
        "build.ttlAfterFinished",
        "runtime.gpu.slot",
        "vision.replicas",
    }
)
"""Fields of a spec that change nothing in a pod."""

_DIGITS = 32

_NOT_YET = frozenset(
    {
        Reason.ROLLOUT_IN_PROGRESS,
        Reason.PODS_STARTING,
        Reason.CANARY_PROGRESSING,
        # A node may be on its way. What stays so is given up by spec.rollout.progressDeadline.
        Reason.PODS_UNSCHEDULABLE,
        Reason.VOLUME_UNAVAILABLE,
    }
)
"""Reasons of a rollout that keeps its turn without having failed."""


def spec_digest(spec: MultimodalModelSpec) -> str:
    return digest(_without(stated(spec), ""))[:_DIGITS]


def _without(part: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return a part of a spec without the fields that change nothing in a pod, or say nothing."""
    left: dict[str, Any] = {}
    for name, value in part.items():
        if f"{path}{name}" in _NOT_OF_PODS:
            continue
        kept = _without(value, f"{path}{name}.") if isinstance(value, Mapping) else value
        if kept != {}:
            left[name] = kept
    return left


def waiting_for_its_turn(
    snapshot: Snapshot, spec: MultimodalModelSpec, deployment: DeploymentState
) -> tuple[Reason, str] | None:
    """Return why a new revision is not rolled out yet; None: it may be."""
    turn = snapshot.turn
    if turn is None or turn.granted or not by_turns(snapshot, spec, deployment):
        return None
    cause = "the operator changed what the pods run, and the spec did not"
    if turn.failing:
        return Reason.ROLLOUTS_STOPPED, (
            f"{cause}: stopped, because the same rollout of {turn.failing} failed; it continues "
            "once that one is complete, and a change of the spec rolls this model out at once"
        )
    models = f"{count(turn.most, 'model')} {'rolls' if turn.most == 1 else 'roll'}"
    return Reason.WAITING_FOR_TURN, f"{cause}: {models} out at a time, the least used first"


def by_turns(snapshot: Snapshot, spec: MultimodalModelSpec, deployment: DeploymentState) -> bool:
    """Return whether a new revision comes from the operator alone.

    A Deployment that does not say which spec it was made of comes from an older operator.
    """
    return snapshot.turn is not None and deployment.spec_digest in {"", spec_digest(spec)}


def rollout_turn_of(snapshot: Snapshot, rollout: RolloutDecision) -> RolloutTurn:
    """Return where a model stands among those that roll by turns."""
    waits, rolls = rollout.waits_for_turn, rollout.by_turns
    if not waits and not rolls:
        return RolloutTurn()
    failure = _failure(snapshot, rollout) if rolls else ""
    return RolloutTurn(waits=waits, rolls=rolls, failure=failure, use=_use_of(snapshot))


def _failure(snapshot: Snapshot, rollout: RolloutDecision) -> str:
    """Return what is wrong with a rollout that began; empty: nothing.

    A spec that became invalid meanwhile is not: its pods are looked at themselves.
    """
    deployment = snapshot.observed.deployment
    if deployment is None:
        return ""
    reason, message = rollout.reason, rollout.message
    if rollout.step is Step.WAITING:
        obstacle = first_obstacle(deployment, snapshot.observed.group_pods)
        reason, message = obstacle or (Reason.PODS_STARTING, "")
    failed = rollout.step is not Step.START and reason not in _NOT_YET
    return message if failed else deployment.stalled


def rolls_by_turns(deployment: DeploymentState, *, complete: bool) -> bool:
    """Return whether a Deployment's pods are still being replaced in a turn.

    The mark goes once they were: a Deployment whose replicas change, or that is applied again, has
    a generation that its controller has not seen, as at the begin of a rollout.
    """
    return deployment.by_turns and not complete and not _was_complete(deployment)


def _was_complete(live: DeploymentState) -> bool:
    """Return whether the revision was complete while no operator looked: its pods failed later.

    The Deployment controller remembers it.
    """
    if live.observed_generation < live.generation or not live.was_complete:
        return False
    # Going back to pods of before, it says so for a moment while none of them runs.
    return live.updated == live.replicas == live.wanted


def _use_of(snapshot: Snapshot) -> float:
    """Return requests a second, as the autoscaler last saw them; else one for each replica."""
    inputs = (snapshot.status.get("scaling") or {}).get("inputs") or {}
    if snapshot.scaling is not None:
        inputs = snapshot.scaling.status.inputs
    requests = inputs.get("requestsPerSecond")
    replicas = snapshot.spec.replicas if snapshot.spec else 0
    return float(replicas if requests is None else requests)
