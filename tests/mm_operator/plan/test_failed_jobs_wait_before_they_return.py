"""Delays before a failed Job is tried again."""

from datetime import timedelta

import pytest

from mm_operator.plan.retry import BUILD, INSPECT, Backoff
from support.models import EPOCH

DELAYS = Backoff(first=30, longest=600)


@pytest.mark.parametrize(
    ("attempt", "passed", "left"),
    [
        pytest.param(1, 0, 30, id="first"),
        pytest.param(2, 0, 60, id="doubled"),
        pytest.param(5, 0, 480, id="doubled-again"),
        pytest.param(6, 0, 600, id="longest"),
        pytest.param(10_000, 0, 600, id="no-overflow"),
        pytest.param(2, 45, 15, id="a-part-is-over"),
        pytest.param(2, 61, 0, id="due"),
    ],
)
def test_delays_grow_and_count_from_the_end(attempt: int, passed: int, left: int) -> None:
    """Twice as long with each attempt, up to a bound; what has passed since the end counts."""
    now = EPOCH + timedelta(seconds=passed)
    assert DELAYS.seconds_left(attempt=attempt, finished_at=EPOCH, now=now) == left


def test_an_unknown_end_is_now() -> None:
    """A Job without a time of its end waits the entire delay."""
    assert DELAYS.seconds_left(attempt=1, finished_at=None, now=EPOCH) == 30


def test_builds_are_tried_less_often_than_inspections() -> None:
    """A build may hold a GPU for an hour."""
    for attempt in range(1, 12):
        inspection, build = (
            delays.seconds_left(attempt=attempt, finished_at=EPOCH, now=EPOCH)
            for delays in (INSPECT, BUILD)
        )
        assert build > inspection
