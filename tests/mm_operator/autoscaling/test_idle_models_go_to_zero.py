"""No replica is left after a time without a request, and one comes when a request waits."""

from dataclasses import replace
from typing import Any

from mm_api.v1alpha1.behavior import ScalingPolicy, ScalingRules
from mm_operator.autoscaling import (
    Objectives,
    Observation,
    ScalingReason,
    State,
    Traffic,
    decide,
    fresh,
)
from support.cases import cases
from support.ticks import SIMPLE, START, TICK_SECONDS, tick, traffic

IDLE_SECONDS = 300.0
TO_ZERO = replace(SIMPLE, min_replicas=0, idle_seconds=IDLE_SECONDS)
QUIET = traffic(0.0, latency=None)
NEVER = ScalingRules(select_policy="Disabled")


def seen(at: float, replicas: int, came: Traffic | None, **changes: Any) -> Observation:
    return tick(at, replicas, came, **{"hold_problem": "", **changes})


def run(
    ticks: int, *, replicas: int = 1, busy: range = range(0), objectives: Objectives = TO_ZERO
) -> list[int]:
    state, found = fresh(START, replicas), []
    for number in range(ticks):
        came = traffic(0.2) if number in busy else QUIET
        decision, state = decide(seen(number * TICK_SECONDS, replicas, came), state, objectives)
        replicas = decision.replicas
        found.append(replicas)
    return found


def idle(replicas: int = 1, objectives: Objectives = TO_ZERO) -> State:
    """Return the memory at `START` of a model without a request for long enough."""
    state = fresh(START - 2 * IDLE_SECONDS, replicas)
    for at in (-2 * IDLE_SECONDS, -IDLE_SECONDS):
        _, state = decide(seen(at, replicas, QUIET), state, objectives)
    return state


def test_the_last_replica_goes_after_its_time() -> None:
    assert run(21) == [1] * 20 + [0]


def test_the_time_begins_with_the_last_request() -> None:
    assert run(31, busy=range(5, 11)) == [1] * 30 + [0]


def test_it_stays_at_zero_without_requests_whatever_prometheus_says() -> None:
    silent = seen(0, 0, None, traffic_problem="Prometheus is away.")
    objectives = replace(TO_ZERO, fallback_replicas=2, fallback_ticks=1)
    for observation in (seen(0, 0, QUIET), silent):
        decision, _ = decide(observation, idle(), objectives)
        assert (decision.replicas, decision.reason) == (0, ScalingReason.SCALED_TO_ZERO)
        assert decision.metrics_available


def test_the_reason_is_reported() -> None:
    decision, _ = decide(seen(0, 1, QUIET), idle(), TO_ZERO)

    assert (decision.replicas, decision.reason) == (0, ScalingReason.SCALED_TO_ZERO)
    assert decision.message == "No request came for 300 s; the router holds the next one."


@cases(
    "changes",
    {
        "a-request-waits": {"held": 1},
        "nothing-would-hold-the-next": {"hold_problem": "No router answers."},
    },
)
def test_a_replica_stays(changes: dict[str, Any]) -> None:
    decision, _ = decide(seen(0, 1, QUIET, **changes), idle(), TO_ZERO)

    assert decision.replicas == 1


@cases(
    "came objectives",
    {
        "silence": (None, TO_ZERO),
        "another-minimum": (QUIET, replace(TO_ZERO, min_replicas=1)),
        "forbidden": (QUIET, replace(TO_ZERO, scale_down=NEVER)),
    },
)
def test_nothing_goes_against_the_spec_or_in_silence(
    came: Traffic | None, objectives: Objectives
) -> None:
    decision, _ = decide(seen(0, 1, came), idle(objectives=objectives), objectives)

    assert decision.replicas == 1


def test_a_request_that_runs_for_longer_keeps_its_replica() -> None:
    """It arrived before every window; it is in flight."""
    state = idle()
    for number in range(60):
        runs = replace(QUIET, in_flight=1.0)
        decision, state = decide(seen(number * TICK_SECONDS, 1, runs), state, TO_ZERO)
        assert decision.replicas == 1


def test_what_waits_wakes_the_model_at_once() -> None:
    """No metrics, no rate limit and no window are in its way."""
    slow = (ScalingPolicy(type="Pods", value=1, period_seconds=900),)
    rules = ScalingRules(stabilization_window_seconds=600, policies=slow)
    objectives = replace(TO_ZERO, scale_up=rules)
    decision, state = decide(seen(0, 0, None, held=3), idle(0, objectives), objectives)

    assert (decision.replicas, decision.reason) == (1, ScalingReason.REQUESTS_HELD)
    assert decision.message == "3 requests wait in the router for a replica."

    # Its start is longer than the time without a request: who waits keeps it.
    for number in range(1, 60):
        waits = seen(number * TICK_SECONDS, 1, QUIET, held=3, ready=0)
        decision, state = decide(waits, state, objectives)
        assert decision.replicas == 1


def test_a_model_whose_requests_left_has_its_time_again() -> None:
    """A start without a client is no flapping: the replica stays as after a request."""
    _, state = decide(seen(0, 0, QUIET, held=1), idle(0), TO_ZERO)
    found = []
    for number in range(1, 23):
        decision, state = decide(seen(number * TICK_SECONDS, 1, QUIET), state, TO_ZERO)
        found.append(decision.replicas)

    assert found == [1] * 20 + [0, 0]
