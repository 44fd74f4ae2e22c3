"""What prevents one replica less, each with its message. Any one of them is enough."""

from collections.abc import Iterator

from mm_operator.autoscaling.decision import Veto, Vetoed
from mm_operator.autoscaling.demand import cold_start_of, memory_seconds
from mm_operator.autoscaling.observation import FAST_WINDOW_SECONDS, Observation
from mm_operator.autoscaling.situation import Situation, fair_share, rounded_up, utilisation
from mm_operator.autoscaling.wording import replicas, verb


def scale_down_blockers(situation: Situation) -> tuple[Vetoed, ...]:
    return tuple(
        veto
        for check in (_memory, _pending, _settling, _latency, _consolidation)
        for veto in check(situation)
    )


def retained_replicas(situation: Situation) -> int:
    """Return the fewest replicas that carry the peak of the last minutes with headroom."""
    demand = situation.demand
    return _carrying(demand.long_peak if _is_small(situation) else demand.peak, situation)


def patience(situation: Situation) -> float:
    """Return how many times as long as usual a step down looks back: longer when it is small."""
    return situation.objectives.tuning.small_step_patience if _is_small(situation) else 1.0


def _is_small(situation: Situation) -> bool:
    tuning, overloaded_at = situation.objectives.tuning, situation.state.overloaded_at
    lately = tuning.small_step_patience * _settle_seconds(situation)
    if overloaded_at is not None and situation.observation.at - overloaded_at < lately:
        return False  # those that came for a queue go when it is gone
    current = situation.observation.replicas
    surplus = current - _carrying(situation.demand.peak, situation)
    return surplus * tuning.small_step_patience <= current


def _settle_seconds(situation: Situation) -> float:
    tuning = situation.objectives.tuning
    starts = tuning.settle_cold_starts * cold_start_of(situation.observation, tuning)
    return max(situation.objectives.settle_seconds, starts)


def _carrying(peak: float, situation: Situation) -> int:
    objectives = situation.objectives
    share = fair_share(situation) * objectives.tuning.margin
    return rounded_up(peak / share) + objectives.warm_replicas


def capacity_limited(observation: Observation) -> bool:
    """Return whether pods wait for a node so long that requesting more is pointless."""
    waited = observation.unschedulable_seconds
    return observation.unschedulable > 0 and waited >= FAST_WINDOW_SECONDS


def _memory(situation: Situation) -> Iterator[Vetoed]:
    horizon = memory_seconds(situation.observation, situation.objectives)
    horizon *= patience(situation)
    if situation.observation.at - situation.state.since < horizon:
        yield Vetoed(
            Veto.SHORT_MEMORY,
            f"The load was not yet watched for the {horizon:.0f} s that a step down looks back.",
        )


def _pending(situation: Situation) -> Iterator[Vetoed]:
    observation = situation.observation
    limited = capacity_limited(observation)
    if not observation.pending or (limited and observation.ready):
        # Pods without a GPU serve no requests: giving them up costs nothing, while others do. Where
        # no pod serves nothing is counted, and no load is no sign of none.
        return
    yield Vetoed(
        Veto.PENDING,
        f"{observation.pending} of {replicas(observation.replicas)} "
        f"{verb(observation.pending, 'do', 'does')} not serve yet.",
    )


def _settling(situation: Situation) -> Iterator[Vetoed]:
    tuning, state = situation.objectives.tuning, situation.state
    now, cold_start = situation.observation.at, cold_start_of(situation.observation, tuning)
    settle = patience(situation) * _settle_seconds(situation)
    step = max(tuning.effect_seconds, cold_start)
    start = f"a cold start takes {cold_start:.0f} s."
    if now - state.grew_at < settle:
        text = f"Replicas were added less than {settle:.0f} s ago; {start}"
        yield Vetoed(Veto.SETTLING, text)
    elif now - state.changed_at < step:
        yield Vetoed(Veto.SETTLING, f"The last step down is less than {step:.0f} s old; {start}")


def _latency(situation: Situation) -> Iterator[Vetoed]:
    pressure = situation.pressure
    low = situation.objectives.tuning.idle_share
    if pressure.unknown:
        yield Vetoed(Veto.LATENCY, "Requests run and a latency is unknown.")
    elif pressure.value is not None and pressure.value >= low and _busy_after(situation):
        yield Vetoed(
            Veto.LATENCY,
            f"{pressure.worst or 'A latency'} is at {pressure.value:.0%} of its target; below "
            f"{low:.0%} a replica may be removed.",
        )


def _busy_after(situation: Situation) -> bool:
    left = max(1, situation.observation.ready - 1)
    return utilisation(situation, left) >= situation.objectives.helpful_utilisation


def _consolidation(situation: Situation) -> Iterator[Vetoed]:
    observation = situation.observation
    fewest = retained_replicas(situation)
    if fewest >= observation.replicas:
        yield Vetoed(
            Veto.CONSOLIDATION,
            f"The highest load of the last minutes, {replicas(situation.demand.peak, 'full')}, "
            f"needs {replicas(fewest)} with headroom.",
        )
