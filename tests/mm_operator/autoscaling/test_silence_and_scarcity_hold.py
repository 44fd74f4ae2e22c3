"""Without metrics nothing goes down; without GPUs nothing more is requested."""

from dataclasses import replace

from mm_operator.autoscaling import Objectives, RequestRate, ScalingReason, Traffic, Veto, decide
from support.cases import cases
from support.ticks import SIMPLE, TICK_SECONDS, one, tick, traffic, watched

NAN = float("nan")


def silence(ticks: int, objectives: Objectives) -> list[int]:
    replicas, state, requested = 4, watched(4, 0.4, objectives), []
    for number in range(ticks):
        seen = tick(number * TICK_SECONDS, replicas, None, traffic_problem="Prometheus is away.")
        decision, state = decide(seen, state, objectives)
        replicas = decision.replicas
        requested.append(replicas)
    return requested


def test_ten_minutes_of_silence_lower_nothing() -> None:
    """An outage looks like no load to those who query carelessly; here it holds."""
    assert silence(40, SIMPLE) == [4] * 40


def test_after_a_minute_the_fallback_may_raise() -> None:
    assert silence(5, replace(SIMPLE, fallback_replicas=7)) == [4, 4, 4, 7, 7]


def test_the_fallback_never_lowers() -> None:
    assert silence(10, replace(SIMPLE, fallback_replicas=2)) == [4] * 10


def test_silence_is_reported() -> None:
    decision = one(4, None, traffic_problem="Prometheus answered 503.")

    assert not decision.metrics_available
    assert [(veto.veto, veto.message) for veto in decision.vetoes] == [
        (Veto.NO_METRICS, "Prometheus answered 503.")
    ]


@cases(
    "wrong",
    {
        "not-a-number": replace(traffic(0.1), in_flight=NAN),
        "infinite": replace(traffic(0.1), fast=RequestRate(float("inf"), 0, 0)),
        "negative": replace(traffic(0.1), steady=RequestRate(-1, 0, 0)),
        "latency": traffic(0.1, latency=NAN),
    },
)
def test_numbers_that_cannot_be_hold(wrong: Traffic) -> None:
    decision = one(4, wrong)

    assert (decision.replicas, decision.reason) == (4, ScalingReason.NO_METRICS)


def test_nothing_more_is_requested_while_pods_wait_for_a_gpu() -> None:
    decision = one(4, traffic(5.0), ready=3, unschedulable=1, unschedulable_seconds=90.0)

    assert (decision.replicas, decision.reason, decision.capacity_limited) == (
        4,
        ScalingReason.CAPACITY_LIMITED,
        True,
    )


def test_a_pod_that_was_just_made_is_not_scarcity() -> None:
    scarce = {"ready": 3, "unschedulable": 1, "unschedulable_seconds": 10.0}
    decision = one(4, traffic(3.0), before=3.0, **scarce)

    assert (decision.replicas, decision.capacity_limited) == (6, False)


def test_replicas_without_a_gpu_may_go() -> None:
    decision = one(4, traffic(0.4), ready=3, unschedulable=1, unschedulable_seconds=900.0)

    assert decision.replicas == 3


def test_where_no_pod_serves_nothing_goes() -> None:
    """All pods lost their nodes: no one counts what comes, and no one knows that it is nothing."""
    nothing = Traffic(
        RequestRate(0, 0, 0), RequestRate(0, 0, 0), mean_output_tokens=None, in_flight=0
    )
    state, replicas = watched(6, 2.0, SIMPLE), 6
    for number in range(60):
        lost = {"ready": 0, "unschedulable": 6, "unschedulable_seconds": number * TICK_SECONDS}
        seen = tick(number * TICK_SECONDS, replicas, nothing, **lost)
        decision, state = decide(seen, state, SIMPLE)
        replicas = decision.replicas

    assert (replicas, decision.capacity_limited) == (6, True)
    assert Veto.PENDING in {one.veto for one in decision.vetoes}
