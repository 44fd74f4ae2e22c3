"""Whether KEDA can move replicas here beside the operator, and whether its ScaledObject does."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from mm_api.v1alpha1 import AutoscalingSpec
from mm_operator.model import KedaSettings

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


def engine_problem(
    spec: AutoscalingSpec,
    keda: KedaSettings | None = None,
    keda_missing: Callable[[], str] = lambda: "",
) -> str:
    """Return why the chosen engine cannot work, as a sentence; empty when it can.

    `keda` is how KEDA reads metrics (None: not configured), `keda_missing` returns why its objects
    cannot be read (empty while they can).
    """
    if spec.engine != "KEDA":
        return ""
    if keda is None:
        return (
            "engine KEDA needs KEDA in the cluster, and the operator configured for it: set "
            "the chart's keda.enabled, or autoscaling.engine to Builtin"
        )
    if missing := keda_missing():
        return f"engine KEDA needs KEDA's definitions in the cluster: install KEDA ({missing})"
    if not keda.addresses:
        return "engine KEDA needs a Prometheus: set the chart value prometheus.addresses"
    return ""
