"""Which engines can move replicas here beside the operator itself, and why one cannot."""

from collections.abc import Callable
from dataclasses import dataclass

from mm_api.v1alpha1 import AutoscalingSpec
from mm_operator.children.scaled_object import keda_problem
from mm_operator.model import KedaSettings


@dataclass(frozen=True, slots=True)
class Engines:
    """What this installation has.

    Attributes:
        metrics_api: external.metrics.k8s.io is served by the operator.
        keda: how KEDA reads metrics; None: not configured.
        keda_missing: why KEDA's objects cannot be read; empty while they can.
    """

    metrics_api: bool = False
    keda: KedaSettings | None = None
    keda_missing: Callable[[], str] = lambda: ""

    def problem(self, spec: AutoscalingSpec) -> str:
        """Return why the chosen engine cannot work, as a sentence; empty when it can."""
        if spec.engine == "HPA" and not self.metrics_api:
            return (
                "engine HPA needs the operator's external metrics API: set the chart's "
                "externalMetrics.enabled, or autoscaling.engine to Builtin"
            )
        if spec.engine == "KEDA":
            return self._keda(spec)
        return ""

    def _keda(self, spec: AutoscalingSpec) -> str:
        if self.keda is None:
            return (
                "engine KEDA needs KEDA in the cluster, and the operator configured for it: set "
                "the chart's keda.enabled, or autoscaling.engine to Builtin"
            )
        if missing := self.keda_missing():
            return f"engine KEDA needs KEDA's definitions in the cluster: install KEDA ({missing})"
        return keda_problem(spec, self.keda)
