"""One setter for conditions: stable order, and times that move on a flip only."""

from datetime import timedelta

from mm_api.conditions import ConditionType
from mm_operator.status.conditions import MESSAGE_LIMIT, Condition, set_conditions
from support.models import EPOCH

READY = Condition(ConditionType.READY, "False", "PodsStarting", "0 of 1")
PLANNED = Condition(ConditionType.PLANNED, "True", "PlanComplete", "planned")
LATER = EPOCH + timedelta(hours=1)


def test_order_is_that_of_the_types() -> None:
    made = set_conditions([], [PLANNED, READY], generation=2, now=EPOCH)
    assert [(one["type"], one["observedGeneration"]) for one in made] == [
        ("Ready", 2),
        ("Planned", 2),
    ]


def test_time_moves_on_a_flip_only() -> None:
    before = set_conditions([], [READY, PLANNED], generation=1, now=EPOCH)
    ready = Condition(ConditionType.READY, "True", "ReplicasAvailable")
    planned = Condition(ConditionType.PLANNED, "True", "PlanComplete", "planned again")
    after = set_conditions(before, [ready, planned], generation=2, now=LATER)
    assert [one["lastTransitionTime"] for one in after] == [
        "2026-01-02T04:04:05Z",
        "2026-01-02T03:04:05Z",
    ]


def test_same_aspects_change_nothing() -> None:
    before = set_conditions([], [READY, PLANNED], generation=1, now=EPOCH)
    assert before == set_conditions(before, [READY, PLANNED], generation=1, now=LATER)


def test_long_messages_are_cut() -> None:
    long = Condition(ConditionType.READY, "False", "PodsCrashing", "x" * 10_000)
    (made,) = set_conditions([], [long], generation=1, now=EPOCH)
    assert (len(made["message"]), made["message"][-10:]) == (MESSAGE_LIMIT, " ... (cut)")


def test_unknown_types_disappear() -> None:
    before = [{"type": "Progressing", "status": "True", "lastTransitionTime": "x"}]
    assert [one["type"] for one in set_conditions(before, [READY], generation=1, now=EPOCH)] == [
        "Ready"
    ]
