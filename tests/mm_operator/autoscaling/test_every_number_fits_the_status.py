"""A decision has more numbers the more objectives it has; the status has room for all of them."""

from dataclasses import replace

from mm_api.v1alpha1.status import ScalingStatus
from mm_operator.autoscaling import (
    LatencyMetric,
    LatencyObjective,
    Objectives,
    RequestRate,
    Traffic,
    WorkCost,
    decide,
    fresh,
)
from support.ticks import START, TICK_SECONDS, tick


def test_all_metrics_fit() -> None:
    wanted = tuple(LatencyObjective(metric, 95, 2.0) for metric in LatencyMetric)
    objectives = Objectives(1, 20, wanted, cost=WorkCost(0.1, 0, 0, 0), slots_per_replica=8)
    busy = RequestRate(30.0, 1.0, 1.0, 0.1)
    seen = Traffic(
        fast=busy,
        steady=busy,
        newest=busy,
        mean_output_tokens=16.0,
        in_flight=8.0,
        latencies={one.name: 1.0 for one in wanted},
        running=8.0,
        completed=20.0,
    )
    state = fresh(START, 1)
    for number in range(3):
        crowd = replace(seen, in_flight=8.0 + 100 * number)
        decision, state = decide(tick(number * TICK_SECONDS, 1, crowd), state, objectives)

    assert {"queueGrowthPerSecond", "meanOutputTokens"} < set(decision.inputs)
    assert {f"latency{one.name}Seconds" for one in wanted} < set(decision.inputs)
    ScalingStatus(desired=decision.replicas, current=1, inputs=decision.inputs)
