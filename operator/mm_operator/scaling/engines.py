"""Whether KEDA can move replicas here beside the operator itself, and why it cannot."""

from collections.abc import Callable

from mm_api.v1alpha1 import AutoscalingSpec
from mm_operator.model import KedaSettings


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
    if spec.prometheus is None and not keda.addresses:
        return (
            "engine KEDA needs a Prometheus: set the operator's own (chart value "
            "prometheus.addresses), or autoscaling.prometheus.addresses"
        )
    return ""
