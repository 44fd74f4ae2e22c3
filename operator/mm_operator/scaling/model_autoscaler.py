"""One model under the autoscaler: what is remembered of it between two ticks."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mm_api.v1alpha1 import AutoscalingSpec, ScalingChange, ScalingStatus
from mm_operator.autoscaling import (
    Decision,
    Objectives,
    Observation,
    State,
    WorkCost,
    decide,
    fresh,
)
from mm_operator.autoscaling import Sample as Moment
from mm_operator.autoscaling.observation import OUTPUT_WINDOW_SECONDS
from mm_operator.model import ScalingView
from mm_operator.scaling.costs import believed
from mm_operator.scaling.pods import ColdStarts, ScaledPod
from mm_operator.scaling.traffic import Reading
from mm_operator.scaling.view import (
    MOST_CHANGES,
    ScalingAuthority,
    change,
    make_view,
    moment_of,
    significant_fields,
)

REVERSAL_SECONDS = 900.0
"""A change that undoes one younger than this was a mistake of one of the two."""

REPUBLISH_SECONDS = 120.0
"""Numbers alone reach the status this often: 1,000 models then cost 8 writes a second at most."""


@dataclass(frozen=True, slots=True)
class Requested:
    """What the API server holds of a model this tick."""

    spec: AutoscalingSpec
    replicas: int
    slots_per_replica: int
    set_by: str = ""
    """Field manager that set the replicas last."""
    held: int = 0
    """Requests that wait in routers."""
    hold_problem: str | None = None
    """Why they would be lost without a replica; empty: they wait. None: there are no routers."""
    slot: str = ""
    """Name of `spec.runtime.gpu.slot`; empty: the model takes turns with no other."""
    encoded_elsewhere: bool = False
    """Encoders in pods of their own encode its images."""


class ModelAutoscaler:
    """The memory of one model, rebuilt from its status by a new leader.

    Args:
        status: `status.scaling` as last written.
        now: Unix seconds.
        replicas: what is requested now.
    """

    def __init__(self, status: Mapping[str, Any], now: float, replicas: int) -> None:
        former = _former(status)
        self.history: list[ScalingChange] = list(former.history)
        self.cold_starts = ColdStarts(former.cold_start_seconds)
        self.state: State = _resumed(self.history, now, replicas)
        self.seen: dict[str, float] = {}
        self.decided_at: float | None = None
        self.decision: Decision | None = None
        self.short_until = 0.0
        """So long what waited for these replicas is in latencies of others."""
        self.attainment: Mapping[str, float] = {}
        self.cost = None if former.work is None else WorkCost(**former.work.model_dump())
        self.cost_problem = former.work_problem or ""
        self.counts: Counter[tuple[str, str]] = Counter()
        """(metric, label) -> how often; goes with the model."""
        self.written_version = 0
        """Version of the model that our last write made: an older record is out of date."""
        self.replicas = replicas
        """What was requested when it was last looked at, or moved."""
        self._engine = ""
        self._published: ScalingView | None = None
        self._published_at = float("-inf")
        self._unschedulable_since: float | None = None

    def names(self, pods: Sequence[ScaledPod], now: float) -> list[str]:
        """Return the names of the pods, and of those that went within the longest window."""
        self.seen |= {pod.name: now for pod in pods}
        self.seen = {
            name: at for name, at in self.seen.items() if now - at <= OUTPUT_WINDOW_SECONDS
        }
        return list(self.seen)

    def decide(
        self,
        requested: Requested,
        objectives: Objectives,
        *,
        pods: Sequence[ScaledPod],
        reading: Reading,
        now: float,
        starved: bool = False,
    ) -> Decision:
        """Run the policy and remember its decision; `starved`: there are too few encoders."""
        self.cold_starts.see(pods)
        if reading.costs:  # else pods are new and reported none yet: what is known holds
            self.cost, self.cost_problem = believed(reading.costs, self.cost)
            if requested.encoded_elsewhere and self.cost and self.cost.text_token_seconds:
                # The benchmark's images waited for encoders; what is left is read as words are.
                least = min(self.cost.image_token_seconds, self.cost.text_token_seconds)
                self.cost = replace(self.cost, image_token_seconds=least)
        waiting = sum(pod.unschedulable for pod in pods)
        if not waiting:
            self._unschedulable_since = None
        elif self._unschedulable_since is None:
            self._unschedulable_since = min(pod.created_at for pod in pods if pod.unschedulable)
        observation = Observation(
            at=now,
            replicas=requested.replicas,
            ready=sum(pod.ready and not pod.terminating for pod in pods),
            unschedulable=waiting,
            unschedulable_seconds=now - (self._unschedulable_since or now),
            cold_start_seconds=self.cold_starts.seconds(),
            traffic=reading.traffic,
            traffic_problem=reading.problem and f"{reading.problem.rstrip('.')}.",
            held=requested.held,
            hold_problem=requested.hold_problem or "",
            starved=starved,
        )
        objectives = replace(objectives, cost=self.cost)
        may_start = requested.replicas or not requested.slot
        if requested.hold_problem is None and may_start:
            objectives = replace(objectives, min_replicas=max(1, objectives.min_replicas))
        decision, self.state = decide(observation, self.state, objectives)
        if decision.is_short(requested.slots_per_replica):
            self.short_until = now + objectives.tuning.effect_seconds
        self.decision, self.attainment = decision, reading.attainment
        self.counts.update(("mm_autoscaling_veto_total", str(one.veto)) for one in decision.vetoes)
        if decision.metrics_available:
            self.decided_at = now
        return decision

    def moved(self, before: int, after: int, reason: str, now: float) -> None:
        """Note a change of the replicas, if it is one."""
        if before == after:
            return
        last = self.history[0] if self.history else None
        undoes = (
            last is not None
            and (last.to_replicas - last.from_replicas) * (after - before) < 0
            and now - moment_of(last) < REVERSAL_SECONDS
        )
        self.history = [change(now, before, after, reason), *self.history][:MOST_CHANGES]
        self.replicas = after
        self.counts["mm_autoscaling_changes_total", "up" if after > before else "down"] += 1
        self.counts["mm_autoscaling_reversals_total", ""] += undoes

    def changes_engine(self, engine: str) -> bool:
        """Return whether the engine differs from the last tick's, and note it."""
        changed, self._engine = engine != self._engine, engine
        return changed

    def is_settled(self, now: float, seconds: float) -> bool:
        """Return whether the replicas were not moved for so long."""
        return not self.history or now - moment_of(self.history[0]) >= seconds

    def publish(
        self, requested: Requested, decision: Decision, authority: ScalingAuthority, now: float
    ) -> ScalingView | None:
        """Return what the status should say now, or None when it says so already."""
        view = make_view(
            requested.spec,
            decision,
            history=self.history,
            cold_start_seconds=self.cold_starts.seconds(),
            cold_start_phases=self.cold_starts.phases(),
            cost=self.cost,
            cost_problem=self.cost_problem,
            authority=authority,
            has_routers=requested.hold_problem is not None,
        )
        before = self._published
        same = before is not None and significant_fields(before) == significant_fields(view)
        if same and (before == view or now - self._published_at < REPUBLISH_SECONDS):
            return None
        self._published, self._published_at = view, now
        return view

    def others_moved(self, requested: Requested, now: float) -> bool:
        """Return whether another client set the replicas, and note it."""
        moved = requested.replicas != self.replicas
        if moved:
            self.moved(
                self.replicas, requested.replicas, f"SetBy {requested.set_by or 'others'}", now
            )
        return moved


def _former(status: Mapping[str, Any]) -> ScalingStatus:
    """Return the status of a former leader; one that cannot be read is none."""
    try:
        former = ScalingStatus.model_validate(status)
        for one in former.history:
            moment_of(one)
    except (ValueError, OverflowError):  # ValidationError is a ValueError
        return ScalingStatus()
    return former


def _resumed(history: Iterable[ScalingChange], now: float, replicas: int) -> State:
    """Return a memory that knows the changes so far: nothing is undone too soon after a restart.

    A former leader's clock may have been ahead: a change of the future would hold rate limits
    until that future has passed.
    """
    changes = tuple(
        Moment(min(now, moment_of(one)), float(one.to_replicas - one.from_replicas))
        for one in reversed(list(history))
    )
    state = fresh(now, replicas)
    if not changes:
        return state
    return replace(state, changed_at=changes[-1].at, changes=changes)
