"""How the memory moves from one tick to the next."""

from dataclasses import replace

from mm_operator.autoscaling.objectives import Objectives
from mm_operator.autoscaling.observation import Observation
from mm_operator.autoscaling.rate_limits import needed_seconds
from mm_operator.autoscaling.state import Sample, State


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
