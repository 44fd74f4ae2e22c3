"""What a decision becomes in the status: numbers, sentences, history, one condition. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from mm_api.conditions import Reason
from mm_api.v1alpha1 import (
    AutoscalingSpec,
    ObjectiveStatus,
    ScalingChange,
    ScalingStatus,
    WorkStatus,
)
from mm_operator.autoscaling import Decision, ScalingReason, Veto, WorkCost
from mm_operator.autoscaling.inputs import rounded
from mm_operator.model import ScalingView

MOST_CHANGES = 10

_RECOMMENDING = (
    "status.scaling says what would be done; set autoscaling.mode to Enforce to have it done"
)
_CONTESTED = (
    "moves the replicas too, so the operator does not: delete it (and the ScaledObject it may come "
    "from), or set autoscaling.mode to Off and let it target the MultimodalModel"
)
_NO_ROUTER = (
    "minReplicas 0 counts as 1, because nothing holds requests while there is no pod: set the "
    "chart's router.enabled"
)
_TURNS = frozenset({ScalingReason.SLOT_BUSY, ScalingReason.SLOT_GIVEN_UP})
_LIMITED = (
    "more replicas are needed and there is no node to place them on: add nodes, or lower "
    "autoscaling.maxReplicas"
)


@dataclass(frozen=True, slots=True)
class ScalingAuthority:
    """Who may move replicas now, and what stands against it."""

    others: str = ""
    """Name of a HorizontalPodAutoscaler of others on the same replicas; empty: none."""
    problem: str = ""
    """Why the chosen engine cannot work, as a sentence; empty: it can."""
    trouble: str = ""
    """Why the ScaledObject does not move them, as a sentence; empty: it does."""
    by_keda: bool = False
    """KEDA should move the replicas, by our ScaledObject."""


def make_view(
    spec: AutoscalingSpec,
    decision: Decision,
    *,
    history: Sequence[ScalingChange],
    cold_start_seconds: float | None,
    cold_start_phases: Mapping[str, float],
    cost: WorkCost | None,
    cost_problem: str = "",
    authority: ScalingAuthority,
    has_routers: bool = True,
) -> ScalingView:
    """Return what people and programs read of a decision."""
    active, reason, message = _condition(spec, decision, authority)
    if spec.to_zero and not has_routers:
        message = f"{message}; {_NO_ROUTER}"
    return ScalingView(
        status=ScalingStatus(
            desired=decision.replicas,
            current=decision.current,
            reason=str(decision.reason),
            message=decision.message,
            inputs=dict(sorted(decision.inputs.items())),
            vetoes=[f"{one.veto}: {one.message}" for one in decision.vetoes],
            objectives=[
                ObjectiveStatus(
                    name=one.name,
                    value=None if one.value_seconds is None else rounded(one.value_seconds),
                    target=one.target_seconds,
                    met=one.met,
                )
                for one in decision.objectives
            ],
            history=list(history[:MOST_CHANGES]),
            cold_start_seconds=(
                None if cold_start_seconds is None else rounded(cold_start_seconds)
            ),
            cold_start_phases={
                name: rounded(seconds) for name, seconds in cold_start_phases.items()
            },
            work=None
            if cost is None
            else WorkStatus(**{name: rounded(seconds) for name, seconds in asdict(cost).items()}),
            work_problem=cost_problem or None,
        ),
        active=active,
        reason=reason,
        message=message,
        by_keda=authority.by_keda,
    )


def significant_fields(view: ScalingView) -> tuple[Any, ...]:
    """Return what makes a view worth a write at once; other numbers may wait."""
    status = view.status
    return (
        status.desired,
        status.current,
        status.reason,
        tuple(text.partition(":")[0] for text in status.vetoes),
        tuple((one.name, one.target, one.met) for one in status.objectives),
        tuple(status.history),
        status.work_problem,
        view.active,
        view.reason,
        view.message,
        view.by_keda,
    )


def change(moment: float, before: int, after: int, reason: str) -> ScalingChange:
    text = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return ScalingChange(time=text, from_replicas=before, to_replicas=after, reason=reason)


def moment_of(entry: ScalingChange) -> float:
    """Return when a change was, in Unix seconds."""
    return datetime.fromisoformat(entry.time).timestamp()


def _condition(
    spec: AutoscalingSpec, decision: Decision, authority: ScalingAuthority
) -> tuple[bool, Reason, str]:
    if spec.mode == "Recommend":
        return False, Reason.RECOMMEND_ONLY, _RECOMMENDING
    if obstacle := _obstacle(decision, authority):
        return False, *obstacle
    if decision.reason in _TURNS:
        return True, Reason.WAITING_FOR_SLOT, decision.message
    if decision.capacity_limited:
        return True, Reason.CAPACITY_LIMITED, _LIMITED
    names = [one.name for one in decision.objectives]
    followed = ", ".join(names) or "the load"
    bounds = f"between {spec.min_replicas} and {spec.max_replicas}"
    return True, Reason.FOLLOWING_LOAD, f"replicas move {bounds} to keep {followed}"


def _obstacle(decision: Decision, authority: ScalingAuthority) -> tuple[Reason, str] | None:
    """Return why replicas are not, or not entirely, moved; the gravest of several."""
    if authority.problem:
        return Reason.ENGINE_NOT_AVAILABLE, authority.problem
    if authority.others:
        return (
            Reason.REPLICAS_CONTESTED,
            f"HorizontalPodAutoscaler {authority.others} {_CONTESTED}",
        )
    if authority.trouble:
        return Reason.ENGINE_NOT_AVAILABLE, authority.trouble
    if not decision.metrics_available:
        held = decision.reason is ScalingReason.NO_METRICS
        what = "replicas stay as they are" if held else "replicas follow what is known"
        return Reason.METRICS_MISSING, f"{what}: {_problem(decision)}"
    return None


def _problem(decision: Decision) -> str:
    vetoes = [one.message for one in decision.vetoes if one.veto is Veto.NO_METRICS]
    return vetoes[0] if vetoes else decision.message
