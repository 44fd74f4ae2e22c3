"""Whether the object that moves replicas for us can do so, from its own conditions. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

PATIENCE_SECONDS = 60.0
"""An object that was just made, or whose server restarts, finds its metric within this time."""

KINDS: Mapping[str, str] = {"HPA": "HorizontalPodAutoscaler", "KEDA": "ScaledObject"}
"""Engine -> kind of the object that it moves replicas through."""

_TROUBLE: Mapping[str, tuple[tuple[str, str], ...]] = {
    "HorizontalPodAutoscaler": (("AbleToScale", "False"), ("ScalingActive", "False")),
    "ScaledObject": (("Ready", "False"), ("Fallback", "True")),
}
"""Kind -> type and status of a condition that says that the recommendation is not followed."""


def trouble(found: Mapping[str, Any], now: float) -> str:
    """Return why an object does not follow the recommendation, as a sentence; empty when it does.

    Its own message is left out: it names addresses and times, and would change with every attempt.

    Args:
        found: a HorizontalPodAutoscaler or a ScaledObject.
        now: Unix seconds.
    """
    kind, name = found["kind"], found["metadata"]["name"]
    bad = _TROUBLE[kind]
    for one in (found.get("status") or {}).get("conditions") or ():
        if (one["type"], one["status"]) not in bad or _age(one, found, now) < PATIENCE_SECONDS:
            continue
        return (
            f"{kind} {name} does not follow the recommendation ({one['type']} is {one['status']}, "
            f"{one.get('reason', 'no reason')}), nothing is lowered: see kubectl describe "
            f"{kind.lower()} {name}"
        )
    return ""


def _age(condition: Mapping[str, Any], found: Mapping[str, Any], now: float) -> float:
    # KEDA writes no times into its conditions.
    since = condition.get("lastTransitionTime") or found["metadata"]["creationTimestamp"]
    return now - datetime.fromisoformat(since).timestamp()
