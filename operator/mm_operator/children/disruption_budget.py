"""The budget that keeps a drained node from taking every replica at once."""

from mm_api import labels
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.children.deployment import selector
from mm_operator.children.metadata import Manifest, own_metadata
from mm_operator.model import Plan, Snapshot
from mm_operator.plan import names


def build_disruption_budget(
    snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan
) -> Manifest | None:
    """Return the budget when there are several replicas: for one it would only block the drain."""
    served = plan.rollout.serving_hash or plan.rollout.held
    if not served or spec.replicas <= 1:
        return None
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": own_metadata(
            snapshot,
            name=names.disruption_budget(snapshot.name),
            component=labels.Component.SERVER,
        ),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": selector(snapshot.name)},
            # A pod that never became ready holds up no drain.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
