"""The simulator is right where a formula says what must come out."""

import math
import random
from dataclasses import replace

import pytest

from mm_lab.simulation import Faults, Fleet, Plan, Request, ServiceProfile, simulate
from mm_lab.simulation.meters import Meters
from mm_lab.simulation.replica import Replica
from mm_lab.simulation.run import View
from mm_lab.simulation.score import Change, Targets, reversals
from mm_lab.simulation.slo_policy import SloPolicy
from mm_operator.autoscaling import LatencyMetric, Objectives

TARGETS = Targets(first_token_seconds=1.0, inter_token_seconds=0.05)
PROFILE = ServiceProfile(
    name="round numbers",
    prompt_seconds=0.1,
    image_token_seconds=0.001,
    text_token_seconds=0.0001,
    step_seconds=0.01,
    step_seconds_per_request=0.01,
    slots=2,
    queue_size=3,
    cold_start_seconds=60.0,
)


class Constant:
    """Wants so many replicas, from a moment on."""

    tick_seconds = 1

    def __init__(self, replicas: int, *, since: int = 0, before: int = 1) -> None:
        self._replicas, self._since, self._before = replicas, since, before

    def replicas(self, view: View) -> int:
        return self._replicas if view.at >= self._since else self._before


def plan(replicas: int = 1, **changes: object) -> Plan:
    values: dict[str, object] = {
        "profile": PROFILE,
        "targets": TARGETS,
        "start_replicas": replicas,
        "min_replicas": 1,
        "max_replicas": 10,
        "quiet_seconds": 0,
    }
    return Plan(**(values | changes))  # type: ignore[arg-type]


def lived(requests: list[Request], seconds: int, profile: ServiceProfile = PROFILE) -> Meters:
    meters, replica = Meters(TARGETS), Replica(profile, 0.0)
    for request in requests:
        meters.arrived(request)
    replica.send(requests)
    for second in range(1, seconds + 1):
        replica.advance(float(second), meters)
        meters.close_second(replica.inside, replica.running)
    return meters


def test_a_crowd_of_unknown_cost_does_not_take_the_entire_cluster() -> None:
    """All slots of one replica request four, whatever waits behind them, until those serve."""
    requested = Objectives(min_replicas=1, max_replicas=50, cost=None, slots_per_replica=2)
    policy = SloPolicy(requested, cold_start_seconds=PROFILE.cold_start_seconds)
    trace = [Request(float(at), 0, 0, 5) for at in range(300)]
    trace += [Request(300 + at / 20, 0, 0, 5) for at in range(20 * 180)]

    score = simulate(
        trace, policy, plan(profile=replace(PROFILE, queue_size=10_000), max_replicas=50)
    )

    requested_at_once = [one for one in score.changes if one.at < 300 + PROFILE.cold_start_seconds]
    assert [(one.before, one.after) for one in requested_at_once] == [(1, 4)]
    assert score.refused == 0


def test_a_request_alone_takes_its_prompt_and_its_steps() -> None:
    """0.1 s, 100 image tokens, 1,000 text tokens: 0.3 s; then nine steps of 0.02 s."""
    meters = lived([Request(0.0, 100, 1000, 10)], 2)

    assert meters.first_tokens == [pytest.approx(0.3)]
    assert meters.latency(LatencyMetric.REQUEST, 1.0, 2, 60) == pytest.approx(0.3 + 9 * 0.02)


def test_two_requests_share_steps() -> None:
    meters = lived([Request(0.0, 0, 0, 11), Request(0.0, 0, 0, 11)], 2)

    assert meters.first_tokens == [pytest.approx(0.1), pytest.approx(0.2)]
    assert meters.latency(LatencyMetric.REQUEST, 1.0, 2, 60) == pytest.approx(0.2 + 10 * 0.03)


def test_a_full_queue_refuses() -> None:
    meters = lived([Request(0.0, 0, 0, 5) for _ in range(8)], 5)

    assert (meters.refusals, meters.good + len(meters.misses)) == (5, 8)


def test_capacity_is_what_the_cost_says() -> None:
    endless = ServiceProfile(**{**_fields(PROFILE), "queue_size": 10_000})
    cost = endless.cost
    each = cost.request_seconds + 100 * cost.image_token_seconds + 50 * cost.output_token_seconds
    meters = lived([Request(0.0, 100, 0, 50) for _ in range(2000)], 600, endless)
    ended = meters.mean_output_tokens(600, 600)

    assert ended == 50
    assert meters.good + len(meters.misses) == pytest.approx(600 / each, rel=0.02)


def test_one_at_a_time_waits_as_a_queue_of_random_arrivals_does() -> None:
    """Prompts of one length at half load: M/D/1, a mean wait of half a service time."""
    only_prompts = ServiceProfile(**{**_fields(PROFILE), "slots": 1000, "queue_size": 10_000})
    rng = random.Random(7)  # noqa: S311 (repeatable, not secret)
    at, requests = 0.0, []
    while at < 20_000:
        at += rng.expovariate(5.0)  # 0.1 s each: half load
        requests.append(Request(at, 0, 0, 1))
    meters = lived(requests, 20_001, only_prompts)
    waits = [seconds - 0.1 for seconds in meters.first_tokens]

    assert sum(waits) / len(waits) == pytest.approx(0.05, rel=0.05)


def _fields(profile: ServiceProfile) -> dict[str, object]:
    return {name: getattr(profile, name) for name in ServiceProfile.__slots__}


def test_a_new_replica_serves_after_its_cold_start() -> None:
    """Requested at 100 s, Ready at 160 s; it is paid for from the start."""
    trace = [Request(second + 0.5, 0, 0, 1) for second in range(300)]
    score = simulate(trace, Constant(2, since=100), plan())

    assert (score.lowest_ready, score.highest_ready) == (1, 2)
    assert score.replica_hours == pytest.approx((300 + 200) / 3600, abs=2 / 3600)


def test_without_a_node_a_replica_waits_unpaid() -> None:
    """One GPU: the second replica stays unschedulable, reports since when, and costs nothing."""
    fleet = Fleet(PROFILE, 1, nodes=1, seed=random.Random(0))  # noqa: S311 (repeatable, not secret)
    meters = Meters(TARGETS)
    fleet.scale(2, 10.0)
    for second in range(11, 101):
        fleet.second(float(second), [], meters)

    assert (fleet.ready, fleet.unschedulable, fleet.unschedulable_seconds(100.0)) == (1, 1, 90.0)
    assert fleet.paid_seconds == 90


def test_a_replica_that_goes_finishes_its_requests() -> None:
    trace = [Request(10.0 + number / 100, 0, 0, 40) for number in range(4)]
    trace.append(Request(60.0, 0, 0, 1))
    score = simulate(trace, Constant(1, since=11, before=2), plan(2))

    assert (score.lost, score.refused) == (0, 0)
    assert score.replica_hours == pytest.approx((60 + 11) / 3600, abs=2 / 3600)


def test_a_pod_that_dies_loses_its_requests() -> None:
    trace = [Request(9.5, 0, 0, 1000), Request(200.0, 0, 0, 1)]
    score = simulate(trace, Constant(1), plan(faults=Faults(crashes=(11.0,))))

    assert (score.lost, score.lowest_ready) == (1, 0)


def test_the_same_seed_gives_the_same_score() -> None:
    trace = [Request(second * 0.3, 0, 0, 5) for second in range(500)]

    assert simulate(trace, Constant(3), plan(3)) == simulate(trace, Constant(3), plan(3))


def test_prometheus_shows_rates_of_its_window() -> None:
    """Rates are per second of the window, and refused requests are no tokens."""
    meters = lived([Request(0.0, 10, 20, 5) for _ in range(8)], 60)
    seen = meters.arrivals(60, 60)

    assert (seen.requests, seen.refused) == (pytest.approx(3 / 60), pytest.approx(5 / 60))
    assert (seen.image_tokens, seen.text_tokens) == (pytest.approx(0.5), pytest.approx(1.0))
    assert math.isclose(meters.mean_output_tokens(60, 60) or 0, 5)


def test_reversals_are_turns_within_a_quarter_of_an_hour() -> None:
    soon = (Change(0, 1, 2), Change(600, 2, 1))
    late = (Change(0, 1, 2), Change(1000, 2, 1))

    assert (reversals(soon), reversals(late)) == (1, 0)
