"""The HorizontalPodAutoscaler of `autoscaling.engine: HPA`: it moves replicas to what we recommend.

Pace and stabilisation are in the recommendation already, so the object adds none of its own.
"""

from mm_api import labels
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.children.metadata import Manifest, own_metadata
from mm_operator.model import Plan, Snapshot
from mm_operator.plan import names

METRIC = "multimodal_desired_replicas"
"""Name of the external metric that the operator serves: replicas wanted, by model."""

_AT_ONCE: Manifest = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 1000, "periodSeconds": 15}],
}


def build_autoscaler(snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan) -> Manifest | None:
    """Return the object while replicas are to be moved by it, once something is served."""
    wanted, served = spec.autoscaling, plan.rollout.serving_hash or plan.rollout.held
    if wanted is None or not served or (wanted.engine, wanted.mode) != ("HPA", "Enforce"):
        return None
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": own_metadata(
            snapshot, name=names.autoscaler(snapshot.name), component=labels.Component.SERVER
        ),
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
            "behavior": {"scaleUp": _AT_ONCE, "scaleDown": _AT_ONCE},
        },
    }
