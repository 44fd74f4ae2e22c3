"""Whether the ScaledObject that moves replicas for us does so, from its conditions. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

PATIENCE_SECONDS = 60.0
"""An object that was just made, or whose server restarts, finds its metric within this time."""

_TROUBLE = (("Ready", "False"), ("Fallback", "True"))
"""Type and status of a condition that says that the recommendation is not followed."""


def trouble(found: Mapping[str, Any], now: float) -> str:
    """Return why an object does not follow the recommendation, as a sentence; empty when it does.

    Its own message is left out: it names addresses and times, and would change with every attempt.

    `now`: Unix seconds.
    """
    name = found["metadata"]["name"]
    for one in (found.get("status") or {}).get("conditions") or ():
        if (one["type"], one["status"]) not in _TROUBLE or _age(found, now) < PATIENCE_SECONDS:
            continue
        return (
            f"ScaledObject {name} does not follow the recommendation ({one['type']} is "
            f"{one['status']}, {one.get('reason', 'no reason')}), nothing is lowered: see kubectl "
            f"describe scaledobject {name}"
        )
    return ""


def _age(found: Mapping[str, Any], now: float) -> float:
    # KEDA writes no times into its conditions.
    return now - datetime.fromisoformat(found["metadata"]["creationTimestamp"]).timestamp()
