"""The HorizontalPodAutoscaler of `autoscaling.engine: HPA`: it moves replicas to what we recommend.

Pace and stabilisation are in the recommendation already, so the object adds none of its own.
"""

from mm_api import labels
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator import names
from mm_operator.children.metadata import Manifest, own_metadata
from mm_operator.children.replica_mover import is_wanted
from mm_operator.model import Plan, Ref, Snapshot

METRIC = "multimodal_desired_replicas"
"""Name of the external metric that the operator serves: replicas wanted, by model."""

_STEP_WITHIN_TOLERANCE = 10
"""Replicas from which one more or less is a tenth: by default a controller ignores such a step."""


def at_once(most: int, *, exact: bool) -> Manifest:
    """Return a behavior that does what the metric says, up and down.

    Args:
        most: replicas there may be.
        exact: the reader knows the field `tolerance`; named only where it matters, so that
            others take the object too.
    """
    rules: Manifest = {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 1000, "periodSeconds": 15}],
    }
    if exact and most > _STEP_WITHIN_TOLERANCE:
        rules["tolerance"] = "0"
    return {"scaleUp": rules, "scaleDown": dict(rules)}


def build_autoscaler(snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan) -> Manifest | None:
    """Return the object while replicas are to be moved by it, once something is served."""
    wanted = spec.autoscaling
    ref = Ref("HorizontalPodAutoscaler", names.autoscaler(snapshot.name))
    if wanted is None or not is_wanted(snapshot, spec, plan, engine="HPA", ref=ref):
        return None
    return {
        "apiVersion": "autoscaling/v2",
        "kind": ref.kind,
        "metadata": own_metadata(snapshot, name=ref.name, component=labels.Component.SERVER),
        "spec": {
            "scaleTargetRef": {
                "apiVersion": labels.API_VERSION,
                "kind": labels.KIND,
                "name": snapshot.name,
            },
            "minReplicas": wanted.min_replicas,
            "maxReplicas": wanted.max_replicas,
            "metrics": [
                {
                    "type": "External",
                    "external": {
                        "metric": {
                            "name": METRIC,
                            "selector": {"matchLabels": {labels.MODEL: snapshot.name}},
                        },
                        # So many replicas that each accounts for one: exactly what is wanted.
                        "target": {"type": "AverageValue", "averageValue": "1"},
                    },
                }
            ],
            "behavior": at_once(wanted.max_replicas, exact=snapshot.settings.exact_autoscalers),
        },
    }
