"""The Service in front of a model's pods: OpenAI on port 80, and nothing else."""

from mm_api import labels
from mm_operator import names
from mm_operator.children.deployment import selector
from mm_operator.children.metadata import Manifest, own_metadata
from mm_operator.model import Plan, Snapshot


def build_service(snapshot: Snapshot, plan: Plan) -> Manifest | None:
    """Return the Service once there is a revision to serve."""
    if not (plan.rollout.serving_hash or plan.rollout.held):
        return None
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": own_metadata(
            snapshot, name=names.service(snapshot.name), component=labels.Component.SERVER
        ),
        "spec": {
            "type": "ClusterIP",
            "selector": selector(snapshot.name),
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}],
        },
    }
