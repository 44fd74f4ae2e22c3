"""The condition ScalingActive and `status.scaling` say what the autoscaler said last."""

from typing import Any

from mm_api.conditions import Reason
from mm_api.v1alpha1 import ScalingStatus
from mm_operator.model import Outcome, ScalingView
from mm_operator.status.derive import derive
from support.cases import cases
from support.staged import inspected

ON = {
    "autoscaling": {
        "maxReplicas": 4,
        "objectives": [{"metric": "TimeToFirstToken", "target": "500ms"}],
    }
}
SAID = ScalingView(
    ScalingStatus(desired=3, current=2, reason="Demand", message="busy"),
    active=True,
    reason=Reason.FOLLOWING_LOAD,
    message="replicas move between 1 and 4",
)
ALONE = ScalingView(
    ScalingStatus(desired=2, current=2, reason="Blind", message="no metrics"),
    active=False,
    reason=Reason.METRICS_MISSING,
    message="no server answers",
)
FORMER = {"desired": 2, "current": 2, "reason": "Idle", "message": "as before"}


def former(reason: str, *, kind: str = "ScalingActive") -> dict[str, Any]:
    """Return a status as another leader wrote it."""
    condition = {
        "type": kind,
        "status": "False",
        "reason": reason,
        "message": "as before",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {"conditions": [condition], "scaling": FORMER}


@cases(
    "changes view status expected",
    {
        "off": ({}, SAID, {}, ("False", "AutoscalingOff")),
        "said": (ON, SAID, former("Idle"), ("True", "FollowingLoad")),
        "said-that-it-is-blind": (ON, ALONE, {}, ("False", "MetricsMissing")),
        "new-leader": (ON, None, former("MetricsMissing"), ("False", "MetricsMissing")),
        "just-on": (ON, None, former("AutoscalingOff"), ("Unknown", "WaitingForMetrics")),
        "other-conditions": (
            ON,
            None,
            former("PodsStarting", kind="Ready"),
            ("Unknown", "WaitingForMetrics"),
        ),
        "new-model": (ON, None, {}, ("Unknown", "WaitingForMetrics")),
    },
)
def test_the_condition_is_the_autoscalers(
    changes: dict[str, Any],
    view: ScalingView | None,
    status: dict[str, Any],
    expected: tuple[str, str],
) -> None:
    """Its last word; before a new leader has one, the former one's, unless that was "off"."""
    derived = derive(*inspected(changes, scaling=view, status=status), Outcome())
    found = {one["type"]: (one["status"], one["reason"]) for one in derived["conditions"]}

    assert found["ScalingActive"] == expected


@cases(
    "changes view status expected",
    {
        "off": ({}, SAID, former("Idle"), None),
        "said": (ON, SAID, former("Idle"), 3),
        "new-leader": (ON, None, former("Idle"), 2),
        "new-model": (ON, None, {}, None),
    },
)
def test_its_numbers_stay_until_it_says_others(
    changes: dict[str, Any], view: ScalingView | None, status: dict[str, Any], expected: int | None
) -> None:
    """`status.scaling` goes when the autoscaler is off, and never for a change of the leader."""
    derived = derive(*inspected(changes, scaling=view, status=status), Outcome())

    assert derived.get("scaling", {}).get("desired") == expected
