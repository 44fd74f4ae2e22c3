"""Models that take turns on one GPU: which of them may have a replica, and when it has to go.

One member at a time has a replica. It keeps the GPU while no other one's requests wait, and for as
long as its own start took at least; then the GPU goes to the request that has waited the longest.
No request waits for ever: who gives the GPU up queues behind those who wait, and who never becomes
ready loses it at its deadline.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mm_operator.autoscaling.decision import Decision, ScalingReason

LEAST_RESIDENCY_SECONDS = 30.0
"""A model that starts quicker keeps the GPU so long: a swap drains the one before as well."""


@dataclass(frozen=True, slots=True)
class SlotMember:
    """One model of a slot at one moment; times are Unix seconds."""

    name: str
    replicas: int
    """Requested."""
    pods: int
    """Those that may have the GPU still, ending ones included."""
    held: int = 0
    """Requests that wait in routers."""
    held_since: float | None = None
    """When the oldest of them came."""
    started_at: float | None = None
    """When it got the GPU last; None: not known, so long ago."""
    ready_at: float | None = None
    """Since when its pod answers; None: it does not."""
    start_seconds: float | None = None
    """What its starts took; None: none was seen."""
    deadline_seconds: float = 600.0
    """Until a start that has not become ready gives the GPU up."""

    @property
    def residency_seconds(self) -> float:
        """Return how long it keeps the GPU once it answers: half of the time at most is loading."""
        return max(LEAST_RESIDENCY_SECONDS, self.start_seconds or 0.0)

    @property
    def waits(self) -> bool:
        return not self.replicas and self.held_since is not None

    def may_go(self, at: float) -> bool:
        """Return whether it has had the GPU for long enough."""
        if self.ready_at is not None:
            return at - self.ready_at >= self.residency_seconds
        return at - (self.started_at or 0.0) >= self.deadline_seconds


def take_turns(slot: str, members: Sequence[SlotMember], at: float) -> dict[str, Decision]:
    """Return the decisions about those whose turn it is not, by name; the others are free."""
    waiting = sorted((one for one in members if one.waits), key=_age)
    running = sorted((one for one in members if one.replicas), key=_seniority)
    follows = waiting[0] if waiting else None
    ending = (one for one in members if one.pods and one is not follows)
    before = running[0] if running else next(ending, None)
    decisions = {}
    for one in running[1:]:
        text = f"{running[0].name} has slot {slot}: its models run one at a time."
        decisions[one.name] = _decision(one, ScalingReason.SLOT_BUSY, text)
    if running and follows and running[0].may_go(at):
        over = "the time of this one is over" if running[0].ready_at else "this one does not start"
        text = f"Requests to {follows.name} wait for slot {slot}, and {over}."
        decisions[running[0].name] = _decision(running[0], ScalingReason.SLOT_GIVEN_UP, text)
    for one in waiting:
        if before or one is not follows:
            other = before or waiting[0]
            whom = "its own last pod" if other is one else other.name
            # No number of requests: each new one would be a write of the status.
            text = f"Requests wait in the router: {whom} has slot {slot}."
            decisions[one.name] = _decision(one, ScalingReason.SLOT_BUSY, text)
    return decisions


def _age(member: SlotMember) -> tuple[float, str]:
    return member.held_since or 0.0, member.name


def _seniority(member: SlotMember) -> tuple[float, int, float, str]:
    # Who answers keeps the GPU, then who has pods, then who got it.
    never = float("inf")
    ready = never if member.ready_at is None else member.ready_at
    return ready, -member.pods, member.started_at or never, member.name


def _decision(member: SlotMember, reason: ScalingReason, text: str) -> Decision:
    return Decision(
        replicas=0,
        current=member.replicas,
        reason=reason,
        message=text,
        capacity_limited=False,
        inputs={"heldRequests": float(member.held)},
    )
