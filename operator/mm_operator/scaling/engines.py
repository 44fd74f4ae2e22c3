"""Whether KEDA can move replicas here beside the operator itself, and why it cannot."""

from collections.abc import Callable
from dataclasses import dataclass

from mm_api.v1alpha1 import AutoscalingSpec
from mm_operator.children.scaled_object import keda_problem
from mm_operator.model import KedaSettings


@dataclass(frozen=True, slots=True)
class Engines:
    """What this installation has.

    Attributes:
        keda: how KEDA reads metrics; None: not configured.
        keda_missing: why KEDA's objects cannot be read; empty while they can.
    """

    keda: KedaSettings | None = None
    keda_missing: Callable[[], str] = lambda: ""

    def problem(self, spec: AutoscalingSpec) -> str:
        """Return why the chosen engine cannot work, as a sentence; empty when it can."""
        if spec.engine != "KEDA":
            return ""
        if self.keda is None:
            return (
                "engine KEDA needs KEDA in the cluster, and the operator configured for it: set "
                "the chart's keda.enabled, or autoscaling.engine to Builtin"
            )
        if missing := self.keda_missing():
            return f"engine KEDA needs KEDA's definitions in the cluster: install KEDA ({missing})"
        return keda_problem(spec, self.keda)
