"""How long a server may take to start before the kubelet starts it again.

A new revision gets it from the slowest start of its engine that was measured, or from planned bytes
while none was. The number is a part of the pod template, so a revision keeps the one that it was
rolled out with: one that followed each start would roll the model out again each time.
"""

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from mm_api.v1alpha1 import StartStatus
from mm_operator.model import Plan, RolloutDecision, Snapshot
from mm_operator.plan.records import LEAST_SECONDS, MOST_SECONDS, recorded_revision, understood

LEAST_START_SECONDS = 1800
"""Bound of a start that was never measured, after which the container is started again: what a
small engine may take on a node that pulls images at the same time."""

TOGETHER = 5
"""Pods that start at once and share what a store gives. One that was measured may have had its
store for itself, so each of five may take five times as long."""

_SLOW_BYTES = 20 * 10**6
"""A second of a slow store: 1 Gbit/s shared by five pods that start together."""

_SERVER = "server"


def server_start_seconds(snapshot: Snapshot, plan: Plan, host_bytes: int) -> int:
    """Return how long a server of the wanted revision may take to start."""
    recorded = _recorded_seconds(snapshot, plan.rollout)
    if recorded is not None:
        return recorded
    known = _known(snapshot, plan)
    return start_seconds(host_bytes, known.load_seconds if known else None)


def start_seconds(host_bytes: int, measured_seconds: float | None = None) -> int:
    """Return how long a server may take; `measured_seconds`: the slowest start seen, if any."""
    if measured_seconds is None:
        needed = max(LEAST_START_SECONDS, LEAST_SECONDS + -(-host_bytes // _SLOW_BYTES))
    else:
        needed = max(LEAST_SECONDS, round(TOGETHER * measured_seconds))
    return min(MOST_SECONDS, needed)


def slowest_start(snapshot: Snapshot, plan: Plan) -> StartStatus | None:
    """Return the slowest start of the planned engine so far; None: none was seen.

    Only a start that nothing interrupted is seen, and while another engine serves until this one is
    built, no pod reports this one.
    """
    known, rollout = _known(snapshot, plan), plan.rollout
    seen = [
        (pod.load_seconds, pod.slowest_phase)
        for pod in snapshot.observed.pods
        if not rollout.held
        and pod.serving_hash == rollout.serving_hash
        and pod.ready  # reported together with readiness, so that a start costs no further write
        and pod.load_seconds is not None
    ]
    if plan.build_plan is None or not (seen or known):
        return None
    load, phase = max(seen, key=itemgetter(0), default=(0.0, None))
    # Of equal ones the known stays: a status that changes is a write.
    if known is not None and (known.load_seconds >= load):
        return known
    return StartStatus(
        fingerprint=plan.build_plan.fingerprint,
        gpu=_product(plan),
        load_seconds=load,
        slowest_phase=phase[0] if phase else None,
        slowest_phase_seconds=phase[1] if phase else None,
    )


def _known(snapshot: Snapshot, plan: Plan) -> StartStatus | None:
    """Return what the status says of this engine on this GPU; of others it says nothing of use."""
    start = understood(StartStatus, snapshot.status.get("start"))
    if start is None or plan.build_plan is None:
        return None
    same = (start.fingerprint, start.gpu) == (plan.build_plan.fingerprint, _product(plan))
    return start if same else None


def _product(plan: Plan) -> str | None:
    return plan.engine.gpu.product if plan.engine and plan.engine.gpu else None


def _recorded_seconds(snapshot: Snapshot, rollout: RolloutDecision) -> int | None:
    """Return what the pods of a revision have; None: it was not rolled out, or its record is gone.

    The Deployment says it too, but any client may have changed that.
    """
    deployment = snapshot.observed.deployment
    recorded = recorded_revision(snapshot, rollout.serving_hash)
    if recorded is not None:
        return recorded.start_seconds
    if deployment and deployment.serving_hash == rollout.serving_hash:
        return deployment.start_seconds
    return None


def probe_seconds(template: Mapping[str, Any]) -> int | None:
    """Return how long the startup probe of a pod template's server lasts; None: it has none."""
    try:
        for container in template["spec"]["initContainers"]:
            if container["name"] == _SERVER:
                probe = container["startupProbe"]
                return int(probe["periodSeconds"]) * int(probe["failureThreshold"])
    except (KeyError, TypeError, ValueError):  # an overwritten record
        return None
    return None
