"""Delays before a failed Job is tried again."""

from datetime import timedelta

from mm_operator.plan.retry import BUILD, INSPECT, Backoff
from support.cases import cases
from support.models import EPOCH

DELAYS = Backoff(first=30, longest=600)


@cases(
    "attempt passed left",
    {
        "first": (1, 0, 30),
        "doubled": (2, 0, 60),
        "doubled-again": (5, 0, 480),
        "longest": (6, 0, 600),
        "no-overflow": (10_000, 0, 600),
        "a-part-is-over": (2, 45, 15),
        "due": (2, 61, 0),
    },
)
def test_delays_grow_and_count_from_the_end(attempt: int, passed: int, left: int) -> None:
    now = EPOCH + timedelta(seconds=passed)
    assert DELAYS.seconds_left(attempt=attempt, finished_at=EPOCH, now=now) == left


def test_an_unknown_end_is_now() -> None:
    assert DELAYS.seconds_left(attempt=1, finished_at=None, now=EPOCH) == 30


def test_builds_are_tried_less_often_than_inspections() -> None:
    """A build may hold a GPU for an hour."""
    for attempt in range(1, 12):
        inspection, build = (
            delays.seconds_left(attempt=attempt, finished_at=EPOCH, now=EPOCH)
            for delays in (INSPECT, BUILD)
        )
        assert build > inspection
