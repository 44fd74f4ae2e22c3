"""The Service in front of a model's pods: OpenAI on port 80, and nothing else."""

from collections.abc import Mapping

from mm_api import labels
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator import names
from mm_operator.children.deployment import selector
from mm_operator.children.metadata import Manifest, own_metadata
from mm_operator.children.network import build_service_of
from mm_operator.model import Plan, Snapshot


def build_service(snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan) -> Manifest | None:
    """Return the Service once there is a revision to serve."""
    if not (plan.rollout.serving_hash or plan.rollout.held):
        return None
    return service_of(
        snapshot,
        spec,
        name=names.deployment(snapshot.name),
        component=labels.Component.SERVER,
        selector=selector(snapshot.name),
    )


def service_of(
    snapshot: Snapshot,
    spec: MultimodalModelSpec,
    *,
    name: str,
    component: str,
    selector: Mapping[str, str],
) -> Manifest:
    """Return the Service of some pods of a model."""
    policy = spec.network.over(snapshot.settings.network).ip_family_policy
    families = {"ipFamilyPolicy": policy} if policy else {}
    metadata = own_metadata(snapshot, name=name, component=component)
    return build_service_of(metadata, selector, {"http": 80}, type="ClusterIP", **families)
