"""What the policy remembers counts up to its window's bound, and not a tick longer."""

from dataclasses import replace

import pytest

from mm_operator.autoscaling import Objectives, State, Traffic, decide, fresh
from mm_operator.autoscaling.demand import Demand, demand_of
from mm_operator.autoscaling.pressure import Pressure
from mm_operator.autoscaling.queue import Queue
from mm_operator.autoscaling.situation import Situation, utilisation
from support.cases import cases
from support.ticks import SIMPLE, START, TICK_SECONDS, followed, tick, traffic, watched


def inside(number: float) -> Traffic:
    return replace(traffic(1.0), in_flight=number)


def rise(demand: float, *, before: float, cold_start_seconds: float) -> float:
    seen = traffic(demand, fast=demand + (demand - before) / 4)
    queue = Queue(waits=False, grows=False, growth=0, work=0, full_load=1)
    found = demand_of(
        tick(0, 4, seen, cold_start_seconds=cold_start_seconds),
        seen,
        SIMPLE,
        queue,
        memory=watched(4, before, SIMPLE).demand,
        jitter=0.0,
    )
    return found.forecast - found.now


def test_a_load_that_falls_is_expected_to_stay() -> None:
    """Trends are followed upwards only: what is there now must be carried now."""
    assert rise(1.0, before=3.0, cold_start_seconds=300.0) == 0


def test_trends_are_followed_for_five_minutes_at_most() -> None:
    soon, late, later = (
        rise(1.7, before=1.0, cold_start_seconds=seconds) for seconds in (100.0, 300.0, 3000.0)
    )

    assert late == later
    assert late == pytest.approx(3 * soon)
    assert soon > 0


@cases(
    "later growth",
    {
        "next-tick": (15.0, 4.0),
        "as-long-as-the-means-reach": (60.0, 1.0),
        "after-a-gap": (61.0, 0.0),
        "at-the-same-moment": (0.0, 0.0),
    },
)
def test_growth_is_known_from_two_looks_within_a_minute(later: float, growth: float) -> None:
    """Requests inside rose by 60; without a former look that counts, nothing grew."""
    first, state = decide(tick(0, 20, inside(10)), fresh(START - 600, 20), SIMPLE)
    second, _ = decide(tick(later, 20, inside(70)), state, SIMPLE)

    assert first.inputs["queueGrowthPerSecond"] == 0
    assert second.inputs["queueGrowthPerSecond"] == growth


def test_demand_is_kept_in_steps_of_thirty_seconds() -> None:
    state = fresh(START, 4)
    for number, demand in enumerate((1.0, 1.5, 1.2, 1.1, 1.0)):
        _, state = decide(tick(number * TICK_SECONDS, 4, traffic(demand)), state, SIMPLE)

    assert [(one.at - START, one.value) for one in state.demand] == [
        (0.0, 1.5),
        (30.0, 1.2),
        (60.0, 1.0),
    ]


def test_one_of_three_is_a_small_step() -> None:
    """A third saves little: it goes when the load of 450 s fits; a half goes after 150 s."""
    third = followed([0.8] * 35, replicas=3, objectives=SIMPLE)
    half = followed([0.4] * 12, replicas=2, objectives=SIMPLE)

    assert [one.replicas for one in third] == [3] * 30 + [2] * 5
    assert [one.replicas for one in half] == [2] * 10 + [1] * 2


def fallen(objectives: Objectives) -> State:
    """Return the memory of five replicas whose load fell from 2.1 to 1.6 five minutes ago."""
    state = watched(5, 2.1, objectives)
    for number in range(20):
        _, state = decide(tick(number * TICK_SECONDS, 5, traffic(1.6)), state, objectives)
    return state


@cases("ago expected", {"no-queue-ever": (None, 5), "lately": (435.0, 4), "long-ago": (465.0, 5)})
def test_what_came_for_a_queue_goes_with_it(ago: float | None, expected: int) -> None:
    """A small step looks back 450 s, unless more arrived lately than all replicas could do."""
    now = START + 20 * TICK_SECONDS
    state = replace(fallen(SIMPLE), overloaded_at=None if ago is None else now - ago)
    decision, _ = decide(tick(20 * TICK_SECONDS, 5, traffic(1.6)), state, SIMPLE)

    assert decision.replicas == expected


def test_a_replica_that_does_half_of_what_it_costs_is_twice_as_busy() -> None:
    """Utilisation is of what replicas were seen to do at most; taken slots count where more."""
    demand = Demand(1.0, 1.2, 1.0, now=1.2, forecast=1.2, peak=1.2, long_peak=1.2)

    def busy(full_load: float, in_flight: float = 0.0) -> float:
        queue = Queue(waits=False, grows=False, growth=0, work=0, full_load=full_load)
        pressure = Pressure(0.0, 0, unknown=False)
        seen = tick(0, 4, traffic(1.2))
        state = fresh(START, 4)
        return utilisation(Situation(seen, SIMPLE, state, demand, queue, pressure, in_flight), 4)

    assert (busy(1.0), busy(0.5), busy(0.5, in_flight=24.0)) == (0.3, 0.6, 0.75)
