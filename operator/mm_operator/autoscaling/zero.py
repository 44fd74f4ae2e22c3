"""To no replica at all and back: after a time without a request, and when one waits in a router.

What wakes a model needs no metrics, and no rate limit holds it: a request waits.
"""

from dataclasses import replace

from mm_operator.autoscaling.decision import Decision, ScalingReason
from mm_operator.autoscaling.objectives import Objectives
from mm_operator.autoscaling.observation import Observation
from mm_operator.autoscaling.state import State
from mm_operator.autoscaling.wording import verb


def with_requests(observation: Observation, state: State) -> State:
    """Return the memory with the time of the last request."""
    traffic = observation.traffic
    came = observation.held > 0
    if traffic is not None:
        came = came or traffic.in_flight > 0 or traffic.fast.requests + traffic.fast.refused > 0
    return replace(state, requested_at=observation.at) if came else state


def without_replica(observation: Observation, objectives: Objectives) -> Decision | None:
    """Return the decision while there is no replica and none has to be; None: others decide."""
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
