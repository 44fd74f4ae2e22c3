"""The decision of one tick: latency is the objective and the guard, arriving work the control.

Up follows the work that arrives, so the number of replicas does not feed back into it; pressure of
a latency adds to it. Down takes one step when no veto speaks against it. Silence holds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mm_operator.autoscaling.decision import Decision, ScalingReason, Veto, Vetoed
from mm_operator.autoscaling.demand import Demand, demand_of, jitter_of, remembered
from mm_operator.autoscaling.inputs import inputs_of, problem_of
from mm_operator.autoscaling.objectives import Objectives
from mm_operator.autoscaling.observation import Observation, Traffic
from mm_operator.autoscaling.pressure import Pressure, outcomes, pressure_of
from mm_operator.autoscaling.queue import queue_of
from mm_operator.autoscaling.rate_limits import needed_seconds, rate_limited
from mm_operator.autoscaling.situation import (
    Situation,
    capacity,
    fair_share,
    is_overloaded,
    rounded_up,
    scale_up_helps,
    utilisation,
)
from mm_operator.autoscaling.state import Sample, State
from mm_operator.autoscaling.vetoes import capacity_limited, retained_replicas, scale_down_blockers
from mm_operator.autoscaling.wording import replicas, verb


def watched(observation: Observation, state: State, objectives: Objectives) -> State:
    """Return the memory after a look at the replicas.

    A change counts from when it is observed, whatever made it: this policy, a person or GitOps.
    """
    if observation.ready > state.ready:
        before = max(1, state.ready) * max(1, objectives.slots_per_replica)
        stood = state.inside is not None and state.inside.value > before
        helped_at = observation.at if stood else state.helped_at
        state = replace(state, became_ready_at=observation.at, helped_at=helped_at)
    if observation.ready != state.ready:
        state = replace(state, ready=observation.ready, full_since=None)
    if observation.replicas == state.replicas:
        return state
    added = observation.replicas - state.replicas
    horizon = observation.at - needed_seconds(objectives)
    recent = tuple(change for change in state.changes if change.at > horizon)
    return replace(
        state,
        replicas=observation.replicas,
        changed_at=observation.at,
        grew_at=observation.at if added > 0 else state.grew_at,
        changes=(*recent, Sample(observation.at, float(added))),
    )


def in_one_unit(state: State, at: float, objectives: Objectives) -> State:
    """Return the memory without what was counted in another unit.

    Slots taken and work are both given in full replicas, and a queue of slots is many times the
    work behind it: kept beside each other, one would speak against a step down for the other's
    sake. The look back restarts, so nothing goes before it is long enough.
    """
    counted = objectives.cost is not None
    if state.counted in (None, counted):
        return replace(state, counted=counted)
    return replace(
        state,
        counted=counted,
        since=at,
        demand=(),
        jitter=None,
        raised_load=None,
        raised_utilisation=0.0,
        overloaded_at=None,
    )


def recommended(state: State, at: float, recommendation: int, objectives: Objectives) -> State:
    """Add this tick's recommendation for as long as a stabilisation window needs it."""
    horizon = at - needed_seconds(objectives)
    recent = tuple(sample for sample in state.recommendations if sample.at > horizon)
    if needed_seconds(objectives) <= 0:
        return replace(state, recommendations=())
    return replace(state, recommendations=(*recent, Sample(at, float(recommendation))))


@dataclass(frozen=True, slots=True)
class _Recommendation:
    """A number of replicas with its reason."""

    replicas: int
    reason: ScalingReason
    message: str


def decide(
    observation: Observation, state: State, objectives: Objectives
) -> tuple[Decision, State]:
    """Return how many replicas the model should have, and the memory for the next tick."""
    state = with_requests(observation, watched(observation, state, objectives))
    if (decision := without_replica(observation, objectives)) is not None:
        return decision, state
    problem = problem_of(observation.traffic, observation.traffic_problem)
    if problem or observation.traffic is None:
        return _silent(observation, state, objectives, problem)
    return _informed(observation, observation.traffic, state, objectives)


# --- with metrics -------------------------------------------------------------------------------


def _informed(
    observation: Observation, traffic: Traffic, state: State, objectives: Objectives
) -> tuple[Decision, State]:
    state = in_one_unit(state, observation.at, objectives)
    usual = 0.0 if state.jitter is None else state.jitter.value
    queue, state = queue_of(observation, traffic, state, objectives)
    demand = demand_of(observation, traffic, objectives, queue, memory=state.demand, jitter=usual)
    pressure = pressure_of(traffic, objectives, state.pressure, state.high_ticks)
    state = replace(
        state,
        silent_ticks=0,
        demand=remembered(state.demand, observation, demand, objectives),
        jitter=_jitter(observation.at, traffic, demand, state.jitter, objectives),
        pressure=pressure.value,
        high_ticks=pressure.high_ticks,
    )
    situation = Situation(
        observation, objectives, state, demand, queue, pressure, traffic.in_flight
    )
    if is_overloaded(situation):
        state = replace(state, overloaded_at=observation.at)
    recommendation, vetoes = _recommended(situation)
    if (
        recommendation.reason is ScalingReason.LATENCY_PRESSURE
        and recommendation.replicas > observation.replicas
    ):
        state = replace(
            state,
            raised_at=observation.at,
            # Jitter hides a part of `now`; what slowed them was all that came.
            raised_load=max(demand.now, demand.fast) / max(1, observation.ready),
            raised_pressure=pressure.value or 0.0,
            raised_utilisation=utilisation(situation, observation.ready),
        )
    share = fair_share(situation)
    inputs = inputs_of(
        observation, traffic, demand, pressure, objectives, share=share, jitter=usual, queue=queue
    )
    return _settled(recommendation, vetoes, observation, state, objectives, inputs=inputs)


def _jitter(
    at: float, traffic: Traffic, demand: Demand, before: Sample | None, objectives: Objectives
) -> Sample | None:
    if traffic.newest is None or objectives.cost is None:
        return before
    return jitter_of(demand.newest, demand.steady, at, before)


def _recommended(situation: Situation) -> tuple[_Recommendation, tuple[Vetoed, ...]]:
    """Return the recommendation before bounds of capacity and rate limits."""
    observation, objectives = situation.observation, situation.objectives
    current = observation.replicas
    if is_idle(observation, situation.state, objectives):
        return _Recommendation(0, ScalingReason.SCALED_TO_ZERO, idle_text(objectives)), ()
    floors = [*_demanded(situation), _at_minimum(objectives, observation)]
    need = max(floors, key=lambda floor: floor.replicas)
    if need.replicas > current:
        return need, ()
    boost = _boost(situation)
    if boost is not None:
        return boost, ()
    if need.replicas == current:
        return _steady(need), ()
    vetoes = scale_down_blockers(situation)
    if vetoes:
        enough = f"{need.replicas} {verb(need.replicas, 'are', 'is')} enough"
        text = f"{enough}; {current} {verb(current, 'stay')} for now."
        return _Recommendation(current, ScalingReason.VETOED, text), vetoes
    return _step_down(situation, need), ()


def _demanded(situation: Situation) -> Iterator[_Recommendation]:
    demand, objectives = situation.demand, situation.objectives
    share = fair_share(situation)
    carrying = rounded_up(demand.forecast / share)
    text = f"{_load(situation)}; at {share:.0%} each that takes {carrying}."
    if objectives.warm_replicas:
        warm = carrying + objectives.warm_replicas
        stay = verb(objectives.warm_replicas, "stay")
        yield _Recommendation(
            warm,
            ScalingReason.WARM_REPLICAS,
            f"{text} {objectives.warm_replicas} more {stay} warm.",
        )
    if is_overloaded(situation):
        surge = _surge(situation, carrying)
        extra = f"{surge} more {verb(surge, 'work')} off the queue"
        queue = f"{text} {extra} that grows until {verb(surge, 'they serve', 'it serves')}."
        yield _Recommendation(carrying + surge, ScalingReason.DEMAND, queue)
    yield _Recommendation(carrying, ScalingReason.DEMAND, text)


def _surge(situation: Situation, carrying: int) -> int:
    can = capacity(situation)
    excess, large = situation.demand.now - can, situation.objectives.tuning.surge_excess * can
    return rounded_up(carrying if excess >= large else carrying * excess / large)


def _load(situation: Situation) -> str:
    busy, counted = replicas(situation.demand.forecast), situation.objectives.cost is not None
    if counted and situation.demand.queued:
        inside, growth = situation.in_flight, max(0.0, situation.queue.growth)
        return (
            f"{inside:.0f} requests are in flight and increase by {growth:.2g} a second, which the "
            f"counted work does not explain: it keeps at least {busy} busy"
        )
    if counted:
        return f"The arriving work keeps {busy} busy"
    if situation.demand.queued:
        return f"What work costs is not measured: requests wait for the slots of {busy}, all taken"
    return f"What work costs is not measured: requests take the slots of {busy}"


def _at_minimum(objectives: Objectives, observation: Observation) -> _Recommendation:
    fewest = objectives.min_replicas
    text = f"minReplicas is {fewest}; the load needs less."
    if not fewest:
        fewest, text = 1, f"One stays for {objectives.idle_seconds:.0f} s after the last request."
        text = f"{text} {observation.hold_problem}".rstrip()
    return _Recommendation(fewest, ScalingReason.AT_MINIMUM, text)


def _boost(situation: Situation) -> _Recommendation | None:
    """Return more replicas when a latency misses its target and more of them would help."""
    observation, tuning = situation.observation, situation.objectives.tuning
    pressure, state = situation.pressure, situation.state
    if pressure.value is None or pressure.high_ticks < tuning.high_ticks:
        return None
    if observation.pending or observation.starved:
        return None
    recent = [at for at in (state.raised_at, state.became_ready_at) if at is not None]
    if recent and observation.at - max(recent) < tuning.effect_seconds:
        return None
    if not scale_up_helps(situation):
        return None
    current = observation.replicas
    more = rounded_up(tuning.boost * max(1, current))
    text = f"{pressure.worst} is at {pressure.value:.0%} of its target: {more} more."
    return _Recommendation(current + more, ScalingReason.LATENCY_PRESSURE, text)


def _steady(need: _Recommendation) -> _Recommendation:
    if need.reason is ScalingReason.AT_MINIMUM:
        return need
    return _Recommendation(need.replicas, ScalingReason.STEADY, need.message)


def _step_down(situation: Situation, need: _Recommendation) -> _Recommendation:
    observation = situation.observation
    current = observation.replicas
    step = max(1, current // 2)
    fewest = max(need.replicas, retained_replicas(situation), current - step)
    if capacity_limited(observation):
        fewest = max(fewest, min(observation.ready, current - 1))
    text = (
        f"{replicas(fewest)} {verb(fewest, 'carry', 'carries')} the highest load of the last "
        f"minutes, {replicas(situation.demand.peak, 'full')}, with headroom."
    )
    return _Recommendation(fewest, ScalingReason.CONSOLIDATION, text)


# --- without metrics ----------------------------------------------------------------------------


def _silent(
    observation: Observation, state: State, objectives: Objectives, problem: str
) -> tuple[Decision, State]:
    """Hold, and after a while raise to the fallback: silence never lowers anything."""
    state = replace(state, silent_ticks=state.silent_ticks + 1, high_ticks=0)
    current = observation.replicas
    held = _Recommendation(
        current, ScalingReason.NO_METRICS, f"{problem} The replicas stay as they are."
    )
    floors = [held, _at_minimum(objectives, observation)]
    fallback = objectives.fallback_replicas
    if fallback is not None and state.silent_ticks >= objectives.fallback_ticks:
        text = f"{problem} The fallback is at least {replicas(fallback)}."
        floors.append(_Recommendation(fallback, ScalingReason.FALLBACK, text))
    recommendation = max(floors, key=lambda floor: floor.replicas)
    vetoes = (Vetoed(Veto.NO_METRICS, problem),)
    nothing, share = Pressure(None, 0, unknown=True), objectives.utilisation
    inputs = inputs_of(observation, None, None, nothing, objectives, share=share)
    decision, state = _settled(
        recommendation, vetoes, observation, state, objectives, inputs=inputs
    )
    return replace(decision, metrics_available=False), state


# --- bounds, capacity, rate limits --------------------------------------------------------------


def _settled(
    recommendation: _Recommendation,
    vetoes: tuple[Vetoed, ...],
    observation: Observation,
    state: State,
    objectives: Objectives,
    *,
    inputs: dict[str, float],
) -> tuple[Decision, State]:
    """Limit the recommendation to capacity, rate limits and bounds; bounds win over all."""
    current = observation.replicas
    limited = capacity_limited(observation)
    recommendation = _bounded(recommendation, objectives)
    if limited and recommendation.replicas > current:
        waiting = observation.unschedulable
        busy = f"{replicas(waiting)} {verb(waiting, 'wait')} for a GPU already."
        text = f"{recommendation.message} {busy}"
        vetoes = (*vetoes, Vetoed(Veto.NO_CAPACITY, "Pods wait for a GPU already."))
        recommendation = _Recommendation(current, ScalingReason.CAPACITY_LIMITED, text)
    state = recommended(state, observation.at, recommendation.replicas, objectives)
    limit = rate_limited(
        recommendation.replicas,
        current,
        observation.at,
        recommendations=state.recommendations,
        changes=state.changes,
        objectives=objectives,
    )
    granted = min(max(limit.replicas, objectives.min_replicas), objectives.max_replicas)
    reason = ScalingReason.VETOED if limit.vetoed and granted == current else recommendation.reason
    decision = Decision(
        replicas=granted,
        current=current,
        reason=reason,
        message=recommendation.message,
        inputs=inputs,
        vetoes=(*vetoes, *limit.vetoed),
        objectives=outcomes(observation.traffic, objectives),
        capacity_limited=limited,
    )
    return decision, state


def _bounded(recommendation: _Recommendation, objectives: Objectives) -> _Recommendation:
    most = objectives.max_replicas
    if recommendation.replicas <= most:
        return recommendation
    return _Recommendation(
        most, ScalingReason.AT_MAXIMUM, f"{recommendation.message} maxReplicas is {most}."
    )


def with_requests(observation: Observation, state: State) -> State:
    """Return the memory with the time of the last request."""
    traffic = observation.traffic
    came = observation.held > 0
    if traffic is not None:
        came = came or traffic.in_flight > 0 or traffic.fast.requests + traffic.fast.refused > 0
    return replace(state, requested_at=observation.at) if came else state


def without_replica(observation: Observation, objectives: Objectives) -> Decision | None:
    """Return the decision while there is no replica and none has to be; None: others decide.

    What wakes a model needs no metrics, and no rate limit holds it: a request waits.
    """
    if objectives.min_replicas or observation.replicas:
        return None
    held = observation.held
    reason, text = ScalingReason.SCALED_TO_ZERO, idle_text(objectives)
    if held:
        reason = ScalingReason.REQUESTS_HELD
        text = f"{held} {verb(held, 'requests wait', 'request waits')} in the router for a replica."
    return Decision(
        replicas=1 if held else 0,
        current=0,
        reason=reason,
        message=text,
        capacity_limited=False,
        inputs={"heldRequests": float(held)},
    )


def is_idle(observation: Observation, state: State, objectives: Objectives) -> bool:
    """Return whether no replica is to be left.

    A replica that was added counts as a request: who waited for it has not been seen in metrics.
    """
    last = max(state.since, state.grew_at, state.became_ready_at or 0, state.requested_at or 0)
    idle = observation.at - last >= objectives.idle_seconds
    return not objectives.min_replicas and idle and not observation.hold_problem


def idle_text(objectives: Objectives) -> str:
    return f"No request came for {objectives.idle_seconds:.0f} s; the router holds the next one."
