"""Replicas follow the work that arrives, and come early enough."""

import math
from dataclasses import replace

import pytest

from mm_operator.autoscaling import (
    Decision,
    RequestRate,
    ScalingReason,
    Traffic,
    Tuning,
    Veto,
    WorkCost,
    decide,
    fresh,
)
from mm_operator.autoscaling.queue import work
from support.cases import cases
from support.ticks import COST, SIMPLE, START, one, tick, traffic, watched


@cases(
    "expected demand",
    {
        "fits": (1, 0.4),
        "a-little-more-than-one": (2, 0.6),
        "six-halves": (6, 3.0),
        "bounded-by-the-maximum": (20, 40.0),
    },
)
def test_demand_over_utilisation_is_the_number(expected: int, demand: float) -> None:
    running = 1 if demand < 1 else 3
    assert expected == one(running, traffic(demand), before=demand).replicas


@pytest.mark.parametrize(
    "pods", [pytest.param(number, id=f"{number}-pods") for number in range(1, 10)]
)
def test_a_load_at_the_edge_of_a_replica_is_no_further_replica(pods: int) -> None:
    """As many tenths in flight as pods, at a tenth each, need as many pods; sums of floats do not.

    Three times 0.1 is 0.30000000000000004, and that over 0.1 is more than three.
    """
    seen = replace(traffic(0), in_flight=sum([0.1] * pods))
    blind = replace(SIMPLE, cost=None, slots_per_replica=1, tuning=Tuning(slot_utilisation=0.1))

    assert pods == decide(tick(0, 1, seen), fresh(START, 1), blind)[0].replicas


def test_images_and_words_cost_what_was_measured() -> None:
    cost = WorkCost(0.01, 0.001, 0.0001, 0.002)
    arrivals = RequestRate(requests=2, image_tokens=1000, text_tokens=500)

    assert pytest.approx(0.02 + 1.0 + 0.05 + 2 * 50 * 0.002) == work(arrivals, 50, cost)


def test_refused_requests_are_demand() -> None:
    assert work(RequestRate(2, 0, 0), 0, COST) == work(RequestRate(1, 0, 0, refused=1), 0, COST)


def test_without_a_measured_cost_slots_taken_are_the_demand() -> None:
    """Until the warm-up measured what a token costs, occupied slots say how much is needed."""
    decision = blind(replicas=2, in_flight=10.0)

    assert decision.replicas == 5  # 10 of 8 slots each: 1.25 full replicas at 30 % of the slots
    assert decision.message == (
        "What work costs is not measured: requests take the slots of 1.2 replicas; at 30% each "
        "that takes 5."
    )


@pytest.mark.parametrize("in_flight", [pytest.param(size, id=f"{size}") for size in (9, 46, 5000)])
def test_a_queue_says_that_more_is_needed_not_how_much(in_flight: int) -> None:
    """However long it is: all slots of what serves are taken, and no more than that counts."""
    decision = blind(replicas=1, in_flight=in_flight)

    assert decision.replicas == 4  # 1 full replica at 30 % of the slots
    assert decision.message == (
        "What work costs is not measured: requests wait for the slots of 1 replica, all taken; at "
        "30% each that takes 4."
    )


def test_a_queue_adds_no_more_while_replicas_start() -> None:
    """It grows until they serve; then what is still taken is queried about again."""
    assert blind(replicas=4, ready=1, in_flight=500.0).replicas == 4
    assert blind(replicas=4, in_flight=500.0).replicas == 14


def blind(*, replicas: int, in_flight: float, **changes: float | str) -> Decision:
    seen = replace(traffic(0), in_flight=in_flight)
    objectives = replace(SIMPLE, cost=None, tuning=Tuning(slot_utilisation=0.3))
    return decide(tick(0, replicas, seen, **changes), fresh(START, replicas), objectives)[0]


def test_what_was_guessed_is_forgotten_when_costs_are_known() -> None:
    """Slots that a queue took are no work: they hold nothing once work is counted, nor hurry it."""
    state = fresh(START, 12)
    unknown = replace(SIMPLE, cost=None)
    for number in range(40):
        crowded = replace(traffic(0.4), in_flight=96.0)
        _, state = decide(tick(15.0 * number, 12, crowded), state, unknown)

    held, state = decide(tick(600.0, 12, traffic(0.4)), state, SIMPLE)
    assert [one.veto for one in held.vetoes] == [Veto.SHORT_MEMORY]
    assert held.inputs["demandPeak"] == 0.4
    released = [held]
    for number in range(1, 20):
        decision, state = decide(tick(600.0 + 15 * number, 12, traffic(0.4)), state, SIMPLE)
        released.append(decision)

    assert [one.replicas for one in released] == [12] * 10 + [6] * 10


def test_a_trend_is_followed_over_the_cold_start() -> None:
    """A rising load gets its replicas before it is there; the same load standing still does not."""
    rising = watched(4, 1.0, SIMPLE)
    seen = tick(0, 4, traffic(1.7, fast=1.9), cold_start_seconds=300.0)

    ahead, _ = decide(seen, rising, SIMPLE)
    level, _ = decide(seen, watched(4, 1.9, SIMPLE), SIMPLE)

    assert (ahead.replicas, level.replicas) == (5, 4)


def test_a_rise_that_ended_is_not_followed_on() -> None:
    rising = watched(4, 1.0, SIMPLE)
    decision, _ = decide(tick(0, 4, traffic(1.9), cold_start_seconds=300.0), rising, SIMPLE)

    assert decision.replicas == 4


def test_a_burst_counts_before_the_steady_window_shows_it() -> None:
    assert one(3, traffic(1.0, fast=2.5), before=1.0).replicas == 5
    assert one(3, traffic(1.0, fast=9.0), before=1.0).replicas == 6


@cases(
    "expected request_seconds",
    {"39000-requests": (6, 0.001), "390-requests": (5, 0.1), "39-requests": (3, 1.0)},
)
def test_a_crowd_is_believed_by_its_count(expected: int, request_seconds: float) -> None:
    """The same work in the last scrape interval is a crowd of many requests, chance of few."""
    costly = replace(SIMPLE, cost=replace(COST, request_seconds=request_seconds))
    calm = RequestRate(1.0 / request_seconds, 0, 0)
    crowd = RequestRate(2.6 / request_seconds, 0, 0)
    seen = replace(traffic(1.0), fast=calm, steady=calm, newest=crowd)

    assert expected == decide(tick(0, 3, seen), fresh(START, 3), costly)[0].replicas


def test_a_growing_queue_gets_surge_replicas() -> None:
    """More than all Ready replicas can work off: as many again for what piles up meanwhile."""
    assert one(2, traffic(2.0), before=1.0).replicas == 4
    assert one(2, traffic(2.5), before=1.0).replicas == 5 + 5


@cases(
    "surge demand",
    {
        "all-that-they-can": (0, 10.0),
        "a-hundredth-more": (2, 10.1),
        "half-of-a-fifth": (11, 11.0),
        "a-fifth": (24, 12.0),
        "twice": (40, 20.0),
    },
)
def test_a_surge_is_in_proportion_to_the_excess(surge: int, demand: float) -> None:
    large = replace(SIMPLE, max_replicas=100)
    carrying = math.ceil(2 * demand)

    assert carrying + surge == one(10, traffic(demand), before=4.0, objectives=large).replicas


def test_without_a_replica_all_that_comes_piles_up() -> None:
    """When the last Ready pod dies the surge is complete."""
    assert one(2, traffic(2.0), before=1.0, ready=0).replicas == 4 + 4


def test_headroom_comes_on_top() -> None:
    decision = one(2, traffic(1.0), before=1.0, objectives=replace(SIMPLE, warm_replicas=2))

    assert (decision.replicas, decision.reason) == (4, ScalingReason.WARM_REPLICAS)


def test_the_numbers_are_reported() -> None:
    inputs = one(2, traffic(1.0), before=1.0).inputs

    assert {
        "demandSteady": 1.0,
        "readyReplicas": 2.0,
        "utilisation": 0.5,
        "latencyTimeToFirstTokenP95Seconds": 0.2,
    }.items() <= inputs.items()


def test_an_idle_model_needs_nothing_but_its_minimum() -> None:
    seen = Traffic(RequestRate(0, 0, 0), RequestRate(0, 0, 0), mean_output_tokens=None, in_flight=0)
    decision, _ = decide(tick(0, 1, seen), watched(1, 0.0, SIMPLE), SIMPLE)

    assert (decision.replicas, decision.reason) == (1, ScalingReason.AT_MINIMUM)
    assert decision.inputs.get("meanOutputTokens") is None
