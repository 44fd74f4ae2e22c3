"""What a model's load always does is not followed; what it never did before is."""

from dataclasses import replace

import pytest

from mm_operator.autoscaling import RequestRate, Sample, State, Traffic, decide, fresh
from mm_operator.autoscaling.demand import jitter_of
from support.cases import cases
from support.ticks import COST, SIMPLE, START, TICK_SECONDS, tick, traffic

REQUEST_SECONDS = 0.001
"""So small that a thousand requests a second are one full replica: counts are no chance."""
QUICK = replace(SIMPLE, cost=replace(COST, request_seconds=REQUEST_SECONDS))


def load(steady: float, *, newest: float, fast: float | None = None) -> Traffic:
    windows = {"steady": steady, "fast": steady if fast is None else fast, "newest": newest}
    arrivals = {name: RequestRate(work / REQUEST_SECONDS, 0, 0) for name, work in windows.items()}
    return replace(traffic(0.0), **arrivals)  # type: ignore[arg-type]


def after(bursts: float, ticks: int = 80) -> State:
    """Return the memory of four replicas whose load of 1.6 had a burst every fourth tick."""
    state = fresh(START - (ticks + 1) * TICK_SECONDS, 4)
    for number in range(ticks, 0, -1):
        newest = 1.6 + (bursts if number % 4 == 0 else 0.0)
        _, state = decide(tick(-number * TICK_SECONDS, 4, load(1.6, newest=newest)), state, QUICK)
    return state


@cases(
    "expected bursts newest",
    {
        "a-burst-after-calm": (5, 0.0, 2.4),
        "the-usual-burst": (4, 0.8, 2.4),
        "a-crowd-all-the-same": (7, 0.8, 4.8),
    },
)
def test_a_burst_counts_by_what_is_usual(expected: int, bursts: float, newest: float) -> None:
    """Half as much again is news after an hour of calm, and none when it comes every minute."""
    seen = tick(0, 4, load(1.6, newest=newest))

    assert expected == decide(seen, after(bursts), QUICK)[0].replicas


@cases("expected bursts", {"after-calm": (5, 0.0), "after-bursts": (4, 0.8)})
def test_a_minute_of_it_counts_a_little_less(expected: int, bursts: float) -> None:
    """The fast window leads the steady one by more than what bursts leave in it."""
    seen = tick(0, 4, load(1.6, newest=1.6, fast=2.1))

    assert expected == decide(seen, after(bursts), QUICK)[0].replicas


def test_a_load_that_stays_is_followed_however_it_jitters() -> None:
    seen = tick(0, 4, load(2.4, newest=2.4))

    assert decide(seen, after(0.8), QUICK)[0].replicas == 5


def test_jitter_is_reported() -> None:
    decision, _ = decide(tick(0, 4, load(1.6, newest=1.6)), after(0.8), QUICK)

    assert decision.inputs["demandJitter"] == pytest.approx(0.27, abs=0.03)


def test_a_crowd_makes_the_next_one_no_usual_one() -> None:
    """However large a deviation is, one of them counts as twice the load at most."""
    before = Sample(START, 0.1)
    huge = jitter_of(50.0, 1.0, START + TICK_SECONDS, before)

    assert huge == jitter_of(2.0, 1.0, START + TICK_SECONDS, before)
    assert huge.value == pytest.approx(0.2, abs=0.01)


@cases("tick_seconds", {"every-2-s": 2.0, "every-minute": 60.0})
def test_six_minutes_forget_half_however_often_one_looks(tick_seconds: float) -> None:
    """Calm halves the mean square in six minutes, at any interval between two looks."""
    known: Sample | None = Sample(START, 0.4)
    for number in range(1, int(360 / tick_seconds) + 1):
        known = jitter_of(1.0, 1.0, START + number * tick_seconds, known)

    assert known.value**2 == pytest.approx(0.4**2 / 2)


def test_jitter_of_nothing_is_unknown() -> None:
    """Without any work there is nothing to compare with; what was known stays."""
    known = Sample(START, 0.3)

    assert jitter_of(0.0, 0.0, START, None) is None
    assert jitter_of(0.0, 0.0, START, known) is known
