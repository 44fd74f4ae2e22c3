"""Stabilisation windows and rate limits, as HorizontalPodAutoscaler v2 counts them.

The rules are those of `normalizeDesiredReplicasWithBehaviors` in Kubernetes'
`pkg/controller/podautoscaler/horizontal.go`.
"""

import math
from dataclasses import dataclass

from mm_api.v1alpha1.behavior import ScalingPolicy, ScalingRules
from mm_operator.autoscaling.decision import Veto, Vetoed
from mm_operator.autoscaling.objectives import Objectives
from mm_operator.autoscaling.state import Sample
from mm_operator.autoscaling.wording import replicas, verb

_NO_LIMIT = 1_000_000
"""Beyond `maxReplicas` of any model."""


@dataclass(frozen=True, slots=True)
class RateLimited:
    """Replicas after the rate limits, and what held them back, if anything did."""

    replicas: int
    vetoed: tuple[Vetoed, ...] = ()


def rate_limited(
    recommendation: int,
    current: int,
    at: float,
    *,
    recommendations: tuple[Sample, ...],
    changes: tuple[Sample, ...],
    objectives: Objectives,
) -> RateLimited:
    """Return how far a recommendation may go now. `recommendations` includes this one."""
    stable = _stabilised(recommendation, current, at, recommendations, objectives)
    if stable == current:
        held = recommendation != current
        return RateLimited(current, (_window(recommendation, current),) if held else ())
    rules = objectives.scale_up if stable > current else objectives.scale_down
    if rules.select_policy == "Disabled":
        way = "up" if stable > current else "down"
        return RateLimited(current, (Vetoed(Veto.DISABLED, f"behavior disables scaling {way}."),))
    allowed = _allowed(rules, current, at, changes, up=stable > current)
    limited = min(stable, allowed) if stable > current else max(stable, allowed)
    vetoed: list[Vetoed] = []
    if stable != recommendation:
        vetoed.append(_window(recommendation, stable))
    if limited != stable:
        vetoed.append(
            Vetoed(Veto.RATE, f"behavior's policies allow {replicas(limited)} now, not {stable}.")
        )
    return RateLimited(limited, tuple(vetoed))


def needed_seconds(objectives: Objectives) -> float:
    """Return how long recommendations and changes must be remembered."""
    rules = (objectives.scale_up, objectives.scale_down)
    periods = [policy.period_seconds for one in rules for policy in one.policies]
    return float(max([*periods, *(one.stabilization_window_seconds or 0 for one in rules)]))


def _stabilised(
    recommendation: int,
    current: int,
    at: float,
    recommendations: tuple[Sample, ...],
    objectives: Objectives,
) -> int:
    up = objectives.scale_up.stabilization_window_seconds or 0
    down = objectives.scale_down.stabilization_window_seconds or 0
    lowest = min([recommendation, *(int(one.value) for one in recommendations if one.at > at - up)])
    highest = max(
        [recommendation, *(int(one.value) for one in recommendations if one.at > at - down)]
    )
    return min(max(current, lowest), highest)


def _allowed(
    rules: ScalingRules, current: int, at: float, changes: tuple[Sample, ...], *, up: bool
) -> int:
    """Return the number that the rate policies allow, as far as possible when there are none."""
    if not rules.policies:
        return _NO_LIMIT if up else 0
    limits = [_limit(policy, current, at, changes, up=up) for policy in rules.policies]
    widest = rules.select_policy == "Max"
    limit = max(limits) if widest is up else min(limits)
    # A period that already moved further than a policy allows turns nothing back.
    return max(limit, current) if up else min(limit, current)


def _limit(
    policy: ScalingPolicy, current: int, at: float, changes: tuple[Sample, ...], *, up: bool
) -> int:
    recent = [change.value for change in changes if change.at > at - policy.period_seconds]
    start = current - int(sum(recent))
    sign = 1 if up else -1
    if policy.type == "Pods":
        return start + sign * policy.value
    share = start * (1 + sign * policy.value / 100)
    return math.ceil(share) if up else math.floor(share)


def _window(recommendation: int, held: int) -> Vetoed:
    return Vetoed(
        Veto.STABILIZATION,
        f"behavior's stabilization window holds {replicas(held)}, "
        f"{recommendation} {verb(recommendation, 'are', 'is')} recommended.",
    )
