"""The condition ScalingActive and `status.scaling` say what the autoscaler said last."""

from typing import Any

import pytest

from mm_api.conditions import Reason
from mm_api.v1alpha1 import ScalingStatus
from mm_operator.model import Outcome, ScalingView
from mm_operator.status.derive import derive
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


@pytest.mark.parametrize(
    ("changes", "view", "status", "expected"),
    [
        pytest.param({}, SAID, {}, ("False", "AutoscalingOff"), id="off"),
        pytest.param(ON, SAID, former("Idle"), ("True", "FollowingLoad"), id="said"),
        pytest.param(ON, ALONE, {}, ("False", "MetricsMissing"), id="said-that-it-is-blind"),
        pytest.param(
            ON, None, former("MetricsMissing"), ("False", "MetricsMissing"), id="new-leader"
        ),
        pytest.param(
            ON, None, former("AutoscalingOff"), ("Unknown", "WaitingForMetrics"), id="just-on"
        ),
        pytest.param(
            ON,
            None,
            former("PodsStarting", kind="Ready"),
            ("Unknown", "WaitingForMetrics"),
            id="other-conditions",
        ),
        pytest.param(ON, None, {}, ("Unknown", "WaitingForMetrics"), id="new-model"),
    ],
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


@pytest.mark.parametrize(
    ("changes", "view", "status", "expected"),
    [
        pytest.param({}, SAID, former("Idle"), None, id="off"),
        pytest.param(ON, SAID, former("Idle"), 3, id="said"),
        pytest.param(ON, None, former("Idle"), 2, id="new-leader"),
        pytest.param(ON, None, {}, None, id="new-model"),
    ],
)
def test_its_numbers_stay_until_it_says_others(
    changes: dict[str, Any],
    view: ScalingView | None,
    status: dict[str, Any],
    expected: int | None,
) -> None:
    """`status.scaling` goes when the autoscaler is off, and never for a change of the leader."""
    derived = derive(*inspected(changes, scaling=view, status=status), Outcome())

    assert derived.get("scaling", {}).get("desired") == expected
