"""A latency above its target adds replicas where they help; one near it keeps what is there."""

from dataclasses import replace

import pytest

from mm_operator.autoscaling import Decision, Observation, ScalingReason, State, Veto, decide
from mm_operator.autoscaling.state import Sample
from support.cases import cases
from support.ticks import SIMPLE, START, TICK_SECONDS, one, tick, traffic, watched


def high(
    ticks: int, *, demand: float = 0.9, replicas: int = 4, **changes: float
) -> tuple[list[Decision], State]:
    state = watched(replicas, demand, SIMPLE)
    decisions = []
    for number in range(ticks):
        slow = replace(traffic(demand, latency=4.0), in_flight=replicas * 8.0)
        seen: Observation = tick(number * TICK_SECONDS, replicas, slow, **changes)
        decision, state = decide(seen, state, SIMPLE)
        decisions.append(decision)
    return decisions, state


def test_two_high_ticks_add_a_quarter() -> None:
    decisions, _ = high(2)

    assert [decision.replicas for decision in decisions] == [4, 5]
    assert decisions[1].reason is ScalingReason.LATENCY_PRESSURE


def test_a_latency_below_its_target_is_what_was_requested() -> None:
    """At 95 % of its target nothing is added, however long; nor is anything taken away."""
    state = watched(4, 0.9, SIMPLE)
    for number in range(40):
        near = replace(traffic(0.9, latency=1.9), in_flight=32.0)
        decision, state = decide(tick(number * TICK_SECONDS, 4, near), state, SIMPLE)
        assert decision.replicas == 4


def test_what_was_added_must_show_first() -> None:
    """Two minutes pass between two boosts: a percentile looks back that far."""
    decisions, _ = high(10)

    assert [decision.replicas for decision in decisions] == [4, 5, *[4] * 7, 5]


def test_pending_replicas_are_awaited() -> None:
    decisions, _ = high(4, ready=3)

    assert {4} == {decision.replicas for decision in decisions}


def test_replicas_that_cannot_help_are_not_added() -> None:
    """A slow answer of idle replicas comes from the request, not from the load."""
    state = watched(4, 0.1, SIMPLE)
    for number in range(5):
        seen = tick(number * TICK_SECONDS, 4, traffic(0.1, latency=9.0))
        decision, state = decide(seen, state, SIMPLE)

        assert decision.replicas <= 4


def test_a_boost_that_changed_nothing_is_not_repeated() -> None:
    """Latency as bad as before, replicas less busy than before: more of them would not help."""
    replicas, state, requested = 4, watched(4, 1.6, SIMPLE), []
    for number in range(20):
        seen = tick(number * TICK_SECONDS, replicas, traffic(1.6, latency=4.0))
        decision, state = decide(seen, state, SIMPLE)
        replicas = decision.replicas
        requested.append(replicas)

    assert requested == [4, *[5] * 19]


def test_a_load_that_was_too_much_is_not_tried_again_soon() -> None:
    """After a boost at 0.45 each, 0.4 each is the most for an hour: fast again is no reason."""
    state = watched(4, 1.8, SIMPLE)
    for number in range(2):
        slow = tick(number * TICK_SECONDS, 4, traffic(1.8, latency=4.0))
        boosted, state = decide(slow, state, SIMPLE)
    wished = []
    for number in range(2, 300):
        calm = tick(number * TICK_SECONDS, 5, traffic(1.8))
        decision, state = decide(calm, state, SIMPLE)
        wished.append(decision.replicas)

    assert boosted.replicas == 5
    assert wished.index(4) * TICK_SECONDS == pytest.approx(3600.0, abs=2 * TICK_SECONDS)


def test_what_was_too_much_is_all_that_came() -> None:
    """Jitter hides a part of the load at a boost; remembered is what the replicas had to do."""
    hidden = replace(traffic(1.6, fast=1.9, latency=4.0), in_flight=32.0)
    state = replace(watched(4, 1.6, SIMPLE), jitter=Sample(START, 0.5))
    for number in range(2):
        boosted, state = decide(tick(number * TICK_SECONDS, 4, hidden), state, SIMPLE)

    assert boosted.reason is ScalingReason.LATENCY_PRESSURE
    assert state.raised_load == pytest.approx(1.9 / 4)


def test_an_outlier_is_forgotten_at_the_next_look() -> None:
    _, spiked = decide(tick(0, 4, traffic(0.9, latency=2000.0)), watched(4, 0.9, SIMPLE), SIMPLE)
    decision, after = decide(tick(15, 4, traffic(0.9, latency=1.0)), spiked, SIMPLE)

    assert (after.pressure, after.high_ticks, decision.replicas) == (0.5, 0, 4)


@cases(
    "veto latency",
    {
        "far-from-the-target": (None, 0.2),
        "near-the-target": (Veto.LATENCY, 1.8),
        "unknown": (Veto.LATENCY, None),
    },
)
def test_a_replica_goes_only_when_latencies_are_low(
    veto: Veto | None, latency: float | None
) -> None:
    decision = one(3, traffic(0.8, latency=latency), before=0.8)

    assert decision.replicas == (2 if veto is None else 3)
    assert [veto] * (veto is not None) == [one.veto for one in decision.vetoes]


def test_objectives_report_whether_they_are_met() -> None:
    (outcome,) = one(4, traffic(0.9, latency=4.0), before=0.9).objectives

    assert (outcome.name, outcome.value_seconds, outcome.target_seconds, outcome.met) == (
        "TimeToFirstTokenP95",
        4.0,
        2.0,
        False,
    )
