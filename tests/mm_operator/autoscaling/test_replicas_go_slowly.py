"""Replicas go step by step, and only when nothing speaks against it."""

from dataclasses import replace

from mm_operator.autoscaling import ScalingReason, Veto, decide, fresh
from support.cases import cases
from support.ticks import SIMPLE, START, TICK_SECONDS, followed, one, tick, traffic, watched


def test_half_go_when_all_is_quiet() -> None:
    decision = one(12, traffic(0.4))

    assert (decision.replicas, decision.reason) == (6, ScalingReason.CONSOLIDATION)


def test_what_stays_carries_the_peak() -> None:
    """Demand 1.6 at 0.45 each takes four replicas, whatever half would be."""
    assert one(12, traffic(0.4), before=1.6).replicas == 6
    assert one(6, traffic(0.4), before=1.6).replicas == 4


def test_steps_down_keep_their_distance() -> None:
    """The second step waits until the latency window shows the first."""
    decisions = followed([0.4] * 40, replicas=12, objectives=SIMPLE)
    replicas = [decision.replicas for decision in decisions]

    assert replicas == [12] * 10 + [6] * 9 + [3] * 9 + [2] * 9 + [1] * 3


def test_a_step_down_leaves_room_for_the_peak() -> None:
    decision = one(3, traffic(0.9), before=1.0)

    assert [veto.veto for veto in decision.vetoes] == [Veto.CONSOLIDATION]
    assert (decision.replicas, decision.reason) == (3, ScalingReason.VETOED)


@cases(
    "vetoes changes",
    {
        "pending": ([Veto.PENDING], {"ready": 3}),
        "long-cold-start": ([Veto.SHORT_MEMORY, Veto.SETTLING], {"cold_start_seconds": 2000.0}),
    },
)
def test_vetoes_hold(vetoes: list[Veto], changes: dict[str, float]) -> None:
    decision = one(4, traffic(0.4), **changes)

    assert (4, vetoes) == (decision.replicas, [one.veto for one in decision.vetoes])


def test_a_new_leader_steps_down_only_after_it_watched() -> None:
    """A memory that begins now holds what it finds for two and a half minutes."""
    decisions = followed([0.4] * 22, replicas=4, objectives=SIMPLE)

    assert [decision.replicas for decision in decisions] == [4] * 10 + [2] * 9 + [1] * 3


def test_a_new_leader_follows_a_rise_at_once() -> None:
    decision, _ = decide(tick(0, 2, traffic(2.0)), fresh(START, 2), SIMPLE)

    assert decision.replicas == 4


def test_a_change_by_hand_counts_as_a_change() -> None:
    state = watched(4, 0.4, SIMPLE)
    decision, _ = decide(tick(0, 6, traffic(0.4)), state, SIMPLE)

    assert [veto.veto for veto in decision.vetoes] == [Veto.SETTLING]


def test_a_recommendation_without_effect_stays() -> None:
    """In mode Recommend the same step down is reported tick after tick: it is not its own veto."""
    state = watched(4, 0.4, SIMPLE)
    wished = []
    for number in range(3):
        decision, state = decide(tick(number * TICK_SECONDS, 4, traffic(0.4)), state, SIMPLE)
        wished.append(decision.replicas)

    assert wished == [2, 2, 2]


def test_a_lower_maximum_holds_at_once() -> None:
    bounded = replace(SIMPLE, max_replicas=2)
    decision, _ = decide(tick(0, 6, traffic(4.0)), fresh(START, 6), bounded)

    assert (decision.replicas, decision.reason) == (2, ScalingReason.AT_MAXIMUM)


def test_a_higher_minimum_holds_at_once() -> None:
    decision = one(1, traffic(0.4), objectives=replace(SIMPLE, min_replicas=3))

    assert (decision.replicas, decision.reason) == (3, ScalingReason.AT_MINIMUM)
