"""What the policy promises whatever comes: properties over arbitrary ticks."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from mm_operator.autoscaling import Observation, Traffic, decide, fresh
from support.ticks import SIMPLE, START, TICK_SECONDS, followed, tick, traffic, watched

SETTLE_SECONDS = SIMPLE.settle_seconds
ANY_NUMBER = st.floats(allow_nan=True, allow_infinity=True)
DEMANDS = st.floats(0, 30)
TRAFFIC = st.builds(
    traffic, DEMANDS, fast=DEMANDS, latency=st.none() | st.floats(0, 10, allow_nan=False)
)
BROKEN = st.none() | st.builds(
    lambda seen, number: replace(seen, in_flight=number), TRAFFIC, ANY_NUMBER
)


@st.composite
def ticks(draw: st.DrawFn, seen: st.SearchStrategy[Traffic | None] = BROKEN) -> Observation:
    replicas = draw(st.integers(0, 25))
    return tick(
        draw(st.floats(0, 5000)),
        replicas,
        draw(seen),
        ready=draw(st.integers(0, replicas)),
        unschedulable=draw(st.integers(0, 3)),
        unschedulable_seconds=draw(st.floats(0, 600)),
    )


@given(st.lists(ticks(), min_size=1, max_size=20))
def test_bounds_always_hold(run: list[Observation]) -> None:
    state = fresh(START, run[0].replicas)
    for seen in run:
        decision, state = decide(seen, state, SIMPLE)

        assert SIMPLE.min_replicas <= decision.replicas <= SIMPLE.max_replicas


@given(ticks(st.none()))
def test_silence_never_lowers(seen: Observation) -> None:
    decision, _ = decide(seen, watched(seen.replicas, 0.4, SIMPLE), SIMPLE)

    assert decision.replicas >= min(seen.replicas, SIMPLE.max_replicas)


@given(ticks())
def test_the_same_tick_gives_the_same_answer(seen: Observation) -> None:
    state = watched(seen.replicas, 0.4, SIMPLE)

    assert decide(seen, state, SIMPLE)[0].replicas == decide(seen, state, SIMPLE)[0].replicas


@given(st.integers(1, 20), DEMANDS, st.floats(0, 10))
def test_more_load_never_means_fewer_replicas(replicas: int, demand: float, more: float) -> None:
    state = watched(replicas, 0.4, SIMPLE)
    less, _ = decide(tick(0, replicas, traffic(demand)), state, SIMPLE)
    greater, _ = decide(tick(0, replicas, traffic(demand + more)), state, SIMPLE)

    assert less.replicas <= greater.replicas


@settings(max_examples=30)  # hours of ticks each
@given(st.lists(DEMANDS, min_size=100, max_size=200))
def test_no_step_down_soon_after_a_change(demands: list[float]) -> None:
    decisions = followed(demands, replicas=3, objectives=SIMPLE)
    changed, waits = 0, SETTLE_SECONDS
    for number, (before, now) in enumerate(pairwise(decisions), start=1):
        if now.replicas < before.replicas:
            assert (number - changed) * TICK_SECONDS >= waits
            changed, waits = number, SIMPLE.tuning.effect_seconds
        elif now.replicas > before.replicas:
            changed, waits = number, SETTLE_SECONDS


@settings(max_examples=10)  # hours of ticks each
@given(DEMANDS, st.integers(1, 20))
def test_a_constant_load_comes_to_rest(demand: float, replicas: int) -> None:
    decisions = followed([demand] * 800, replicas=replicas, objectives=SIMPLE)

    assert len({decision.replicas for decision in decisions[-100:]}) == 1
