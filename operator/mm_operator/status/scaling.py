"""The autoscaler's part of the status: its condition, and what it said last."""

from typing import Any

from mm_api.conditions import ConditionType, Reason
from mm_operator.digests import plain
from mm_operator.model import Snapshot
from mm_operator.status.conditions import Condition, truth


def scaling_active(snapshot: Snapshot) -> Condition:
    """Return the condition ScalingActive."""
    kind, view = ConditionType.SCALING_ACTIVE, snapshot.scaling
    if not _is_on(snapshot):
        return Condition(
            kind,
            "False",
            Reason.AUTOSCALING_OFF,
            "spec.replicas is followed; kubectl scale and autoscalers may set it",
        )
    if view is not None:
        return Condition(kind, truth(view.active), view.reason, view.message)
    # A new leader looks within a tick; until then the last status is kept.
    for former in snapshot.status.get("conditions", ()):
        if former.get("type") == kind and former.get("reason") != Reason.AUTOSCALING_OFF:
            return Condition(kind, former["status"], former["reason"], former.get("message", ""))
    return Condition(
        kind, "Unknown", Reason.WAITING_FOR_METRICS, "metrics are evaluated within 15 seconds"
    )


def scaling_summary(snapshot: Snapshot) -> dict[str, Any]:
    """Return what goes into `status` beside the condition: at most the key `scaling`."""
    if not _is_on(snapshot):
        return {}
    if snapshot.scaling is not None:
        return {"scaling": plain(snapshot.scaling.status)}
    former = snapshot.status.get("scaling")
    return {"scaling": former} if former else {}


def scales_to_zero(snapshot: Snapshot) -> bool:
    autoscaling = snapshot.spec.autoscaling if snapshot.spec else None
    return autoscaling is not None and autoscaling.to_zero


def waits_for_slot(snapshot: Snapshot) -> bool:
    return scaling_active(snapshot).reason == Reason.WAITING_FOR_SLOT


def _is_on(snapshot: Snapshot) -> bool:
    autoscaling = snapshot.spec.autoscaling if snapshot.spec else None
    return autoscaling is not None and autoscaling.mode != "Off"
