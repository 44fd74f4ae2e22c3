"""The Service in front of a model's pods: OpenAI on port 80, and nothing else."""

from mm_api import labels
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator import names
from mm_operator.children.deployment import selector
from mm_operator.children.metadata import Manifest, own_metadata
from mm_operator.model import Plan, Snapshot


def build_service(snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan) -> Manifest | None:
    """Return the Service once there is a revision to serve."""
    if not (plan.rollout.serving_hash or plan.rollout.held):
        return None
    policy = spec.network.over(snapshot.settings.network).ip_family_policy
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": own_metadata(
            snapshot, name=names.deployment(snapshot.name), component=labels.Component.SERVER
        ),
        "spec": {
            "type": "ClusterIP",
            **({"ipFamilyPolicy": policy} if policy else {}),
            "selector": selector(snapshot.name),
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}],
        },
    }
