"""The Service in front of a model's pods: OpenAI on port 80, Triton's own ports beside it."""

from mm_api import labels
from mm_operator.children.deployment import selector
from mm_operator.children.metadata import Manifest, own_metadata
from mm_operator.model import Plan, Snapshot
from mm_operator.plan import names


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
            "ports": [_port("http", 80, "http"), *_tritons(plan)],
        },
    }


def _tritons(plan: Plan) -> list[Manifest]:
    """Return Triton's own ports. trtllm-serve has none for others than the gateway."""
    if plan.serving_plan is not None and plan.serving_plan.trtllm_serve is not None:
        return []
    return [
        _port("triton-grpc", 8001, "triton-grpc"),
        _port("triton-http", 8000, "triton-http"),
    ]


def _port(name: str, number: int, target: str) -> Manifest:
    return {"name": name, "port": number, "protocol": "TCP", "targetPort": target}
