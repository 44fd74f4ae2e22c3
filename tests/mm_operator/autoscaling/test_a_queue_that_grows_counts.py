"""Requests that pile up before taken slots say what the counted work does not."""

from collections.abc import Callable
from dataclasses import replace

from mm_operator.autoscaling import (
    Decision,
    Objectives,
    RequestRate,
    ScalingReason,
    State,
    Traffic,
    Tuning,
    WorkCost,
    decide,
    fresh,
)
from support.cases import cases
from support.ticks import FIRST_TOKEN, START, TICK_SECONDS, tick

SENT, ANSWERED = 27.0, 18.0
"""Requests a second of `make demo-autoscaling`: one and a half times what a pod answers."""
TRUE_COST = WorkCost(1 / ANSWERED, 0, 0, 0)
DEMO = Objectives(
    min_replicas=1,
    max_replicas=20,
    latencies=(FIRST_TOKEN,),
    cost=TRUE_COST,
    slots_per_replica=8,
    tuning=Tuning(cold_start_seconds=19.0),
)
CHEAP = replace(DEMO, cost=WorkCost(0.3 / ANSWERED, 0, 0, 0))
"""The same with a cost that was measured 70 % too low."""
AGE_SECONDS = 8.0
"""What Prometheus shows is so old."""


def crowd(at: float, *, sent: float = SENT, answered: float = ANSWERED) -> Traffic:
    """Return what Prometheus shows `at` seconds after a crowd met idle pods that answer less."""
    seen = max(0.0, at - AGE_SECONDS)
    windows = {name: sent * min(1.0, seen / seconds) for name, seconds in WINDOWS.items()}
    longest, earlier = (sent - answered) * seen, max(0.0, seen - 60.0)
    area = (sent - answered) * (seen**2 - earlier**2) / 2
    return Traffic(
        **{name: RequestRate(rate, 0, 0) for name, rate in windows.items()},
        mean_output_tokens=None,
        in_flight=area / 60.0,
        # The slowest of those that were answered came when the queue was half as long.
        latencies={FIRST_TOKEN.name: longest / answered / 2},
        running=8.0 * min(1.0, seen / 60.0),
        completed=answered * min(1.0, seen / 15.0),
    )


WINDOWS = {"newest": 15.0, "fast": 60.0, "steady": 180.0}


def met_by_a_crowd(
    ticks: int, objectives: Objectives = DEMO, **changes: float
) -> tuple[list[Decision], State]:
    state, decisions = fresh(START - 600.0, 1), []
    for number in range(-20, ticks):
        at = number * TICK_SECONDS
        wanted = decisions[-1].replicas if decisions else 1
        seen = tick(at, wanted, crowd(at, **changes), ready=1)
        decision, state = decide(seen, state, objectives)
        decisions.append(decision)
    return decisions[20:], state


def test_a_crowd_that_queues_is_believed_after_idleness() -> None:
    """What came to idle pods is no usual burst: the second look after it began requests enough.

    Windows of minutes held nothing yet, and the crowd alone was all that was known of its jitter:
    at this the policy saw 0.96 busy replicas for a minute, with 232 requests inside.
    """
    decisions, _ = met_by_a_crowd(5)

    assert [one.replicas for one in decisions] == [1, 1, 4, 4, 4]
    assert decisions[2].reason is ScalingReason.DEMAND


def test_a_queue_says_that_what_serves_is_busy() -> None:
    """Costs that are 70 % too low count a third of the crowd; the queue is there all the same.

    Its growth is believed at the second look that exceeds a tenth of what replicas do: one number
    alone may be a gap between two scrapes.
    """
    decisions, _ = met_by_a_crowd(6, CHEAP)

    assert [one.replicas for one in decisions] == [1, 1, 1, 2, 2, 6]


def test_a_queue_counts_before_any_answer_ended() -> None:
    """Answers may take minutes: what replicas can do is unknown then, that they are full is not."""
    state = fresh(START - 600.0, 1)
    for number in range(-1, 6):
        at = number * TICK_SECONDS
        seen = replace(crowd(at), completed=0.0)
        decision, state = decide(tick(at, 1, seen), state, CHEAP)

    assert (decision.replicas, decision.inputs["fullLoad"]) == (4, 1.0)
    assert decision.message == (
        "333 requests are in flight and increase by 8.7 a second, which the counted work does not "
        "explain: it keeps at least 1.1 replicas busy; at 70% each that takes 2. 2 more work off "
        "the queue that grows until they serve."
    )


@cases("objectives", {"right": DEMO, "low": CHEAP})
def test_a_queue_adds_no_more_while_replicas_start(objectives: Objectives) -> None:
    """Ten minutes pass, 4,900 requests are inside: what comes beyond stays what it is."""
    decisions, _ = met_by_a_crowd(40, objectives)

    assert decisions[-1].inputs["inFlightRequests"] > 4900
    assert {one.replicas for one in decisions[7:]} == {6}


def test_what_replicas_do_before_a_queue_is_all_that_they_can() -> None:
    """A cost that is 70 % too low is put right for an hour, so nothing goes for its sake."""
    _, state = met_by_a_crowd(6, CHEAP)
    calm = calm_traffic(SENT)

    replicas, decisions = 3, []
    for number in range(80, 260):
        decision, state = decide(tick(TICK_SECONDS * number, replicas, calm), state, CHEAP)
        replicas = decision.replicas
        decisions.append(decision)

    # Right would be 0.3; chance, 6 % of the first 270 answers, is on the other side.
    assert {(0.318, 3)} == {(one.inputs["fullLoad"], one.replicas) for one in decisions[:160]}
    assert (decisions[-1].inputs["fullLoad"], decisions[-1].replicas) == (1.0, 1)


def test_a_cost_that_is_measured_again_is_corrected_again() -> None:
    """Pods of which one measured three times as much are no longer counted as if it were low."""
    _, state = met_by_a_crowd(6, CHEAP)
    calm = calm_traffic(SENT)

    assert decide(tick(90.0, 3, calm), state, DEMO)[0].inputs["fullLoad"] == 1.0


def test_costs_that_were_measured_right_stay() -> None:
    decisions, _ = met_by_a_crowd(12)

    assert {one.inputs["fullLoad"] for one in decisions} == {1.0}


@cases(
    "in_flight",
    {
        "two-hundred-and-fewer-every-second": lambda number: 232.0 - 20.0 * number,
        "as-many-at-every-tick-for-a-slow-host": lambda number: 50.0 + number % 2,
    },
)
def test_a_queue_that_does_not_grow_requests_nothing(in_flight: Callable[[int], float]) -> None:
    state, requested = fresh(START, 2), set()
    for number in range(8):
        seen = replace(calm_traffic(9.0), in_flight=in_flight(number))
        decision, state = decide(tick(TICK_SECONDS * number, 2, seen), state, DEMO)
        requested.add(decision.replicas)

    assert requested == {2}


def test_replicas_that_do_more_later_could_do_more() -> None:
    """What slowed full replicas once is over when they finish more: no hour is waited for."""
    _, state = met_by_a_crowd(6, CHEAP)
    quick = calm_traffic(2 * SENT)

    decision, _ = decide(tick(1200.0, 2, quick), state, CHEAP)

    assert decision.inputs["fullLoad"] == 0.45  # of two replicas, each finishing 27 a second


def test_a_replica_that_came_before_the_queue_is_no_help() -> None:
    """A pod that was rolled out a moment before the crowd is none that the crowd requested."""
    state = fresh(START - 600.0, 1)
    for number, ready in ((-2, 0), (-1, 1), (0, 1), (1, 1), (2, 1)):
        at = number * TICK_SECONDS
        decision, state = decide(tick(at, 1, crowd(at), ready=ready), state, DEMO)

    assert decision.replicas == 4


def test_a_replica_that_came_must_show_first() -> None:
    """For a minute the means still grow that grew before it served: they request no more."""
    decisions, state = met_by_a_crowd(5)
    assert decisions[-1].replicas == 4

    came, _ = decide(tick(75.0, 4, crowd(75.0)), state, DEMO)

    assert came.inputs["queueGrowthPerSecond"] > 8
    assert came.replicas == 4


def test_a_minute_after_it_came_a_queue_counts_again() -> None:
    """The means hold no second from before it served: two looks after that, it is believed."""
    _, state = met_by_a_crowd(5)
    wished = []
    for at in (75.0, 90.0, 105.0, 120.0, 135.0, 150.0):
        decision, state = decide(tick(at, 4, crowd(at)), state, DEMO)
        wished.append(decision.replicas)

    assert wished[:5] == [4] * 5
    assert wished[5] > 4


def calm_traffic(rate: float) -> Traffic:
    same = RequestRate(rate, 0, 0)
    quick = {FIRST_TOKEN.name: 0.2}
    return Traffic(same, same, None, in_flight=2.0, latencies=quick, newest=same, completed=rate)
