"""Ticks of the autoscaling policy, with a model whose one request a second is one full replica."""

from functools import cache

from mm_operator.autoscaling import (
    Decision,
    LatencyMetric,
    LatencyObjective,
    Objectives,
    Observation,
    RequestRate,
    State,
    Traffic,
    Tuning,
    WorkCost,
    decide,
    fresh,
)

START = 1_800_000_000.0
TICK_SECONDS = 15.0
FIRST_TOKEN = LatencyObjective(LatencyMetric.TTFT, 95, 2.0)
COST = WorkCost(
    request_seconds=1.0, image_token_seconds=0, text_token_seconds=0, output_token_seconds=0
)
SIMPLE = Objectives(
    min_replicas=1,
    max_replicas=20,
    latencies=(FIRST_TOKEN,),
    cost=COST,
    slots_per_replica=8,
    # Half of a replica is its fair load: demand 1.0 takes two replicas.
    tuning=Tuning(utilisation=0.5, cold_start_seconds=60.0),
)


def traffic(demand: float, *, fast: float | None = None, latency: float | None = 0.2) -> Traffic:
    """Return traffic of so many full replicas, with a first token after `latency` seconds."""
    latencies = {} if latency is None else {FIRST_TOKEN.name: latency}
    return Traffic(
        fast=RequestRate(demand if fast is None else fast, 0, 0),
        steady=RequestRate(demand, 0, 0),
        mean_output_tokens=100.0,
        in_flight=demand,
        latencies=latencies,
    )


def tick(at: float, replicas: int, seen: Traffic | None, **changes: float | str) -> Observation:
    values: dict[str, object] = {"ready": replicas} | changes
    return Observation(at=START + at, replicas=replicas, traffic=seen, **values)  # type: ignore[arg-type]


@cache
def watched(replicas: int, demand: float, objectives: Objectives, ticks: int = 60) -> State:
    """Return the memory after a long quiet time at one number of replicas: it ends at `START`."""
    state = fresh(START - (ticks + 1) * TICK_SECONDS, replicas)
    for number in range(ticks, 0, -1):
        seen = tick(-number * TICK_SECONDS, replicas, traffic(demand))
        _, state = decide(seen, state, objectives)
    return state


def one(
    replicas: int,
    seen: Traffic | None,
    *,
    before: float = 0.4,
    objectives: Objectives = SIMPLE,
    **changes: float | str,
) -> Decision:
    state = watched(replicas, before, objectives)
    return decide(tick(0, replicas, seen, **changes), state, objectives)[0]


def followed(
    demands: list[float], *, replicas: int, objectives: Objectives, start: State | None = None
) -> list[Decision]:
    """Return the decisions of a run in which each decision is carried out before the next tick."""
    state = start or fresh(START, replicas)
    decisions = []
    for number, demand in enumerate(demands):
        seen = tick(number * TICK_SECONDS, replicas, traffic(demand))
        decision, state = decide(seen, state, objectives)
        replicas = decision.replicas
        decisions.append(decision)
    return decisions
