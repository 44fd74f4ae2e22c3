"""The Service in front of a model's pods (OpenAI on port 80), and one of Triton's own ports."""

from collections.abc import Mapping

from mm_api import labels
from mm_api.contract import GATEWAY_PORT, GRPC_PORT, HTTP_PORT, METRICS_PORT
from mm_api.v1alpha1 import MultimodalModelSpec, Peer
from mm_operator import names
from mm_operator.children.deployment import selector
from mm_operator.children.metadata import Manifest, own_metadata
from mm_operator.children.network import build_network_policy, build_service_of, opened
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


_PORTS = {"triton-grpc": GRPC_PORT, "triton-http": HTTP_PORT}


def build_raw_triton(
    snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan
) -> tuple[Manifest, ...]:
    """Return NetworkPolicy and Service, in this order: the ports are guarded before they open."""
    if not spec.runtime.triton.expose or not (plan.rollout.serving_hash or plan.rollout.held):
        return ()
    name, component = names.triton(snapshot.name), labels.Component.TRITON
    peers = [_peer(one) for one in spec.runtime.triton.allow_from] or [{"podSelector": {}}]
    policy = build_network_policy(
        own_metadata(snapshot, name=name, component=component),
        selector(snapshot.name),
        [
            opened([GATEWAY_PORT, METRICS_PORT]),
            opened(sorted(_PORTS.values()), peers),
        ],
    )
    metadata = own_metadata(snapshot, name=name, component=component)
    service = build_service_of(metadata, selector(snapshot.name), _PORTS, type="ClusterIP")
    return policy, service


def _peer(peer: Peer) -> Manifest:
    chosen = {"podSelector": peer.pod_selector, "namespaceSelector": peer.namespace_selector}
    given = {
        name: {"matchLabels": one.match_labels} if one.match_labels else {}
        for name, one in chosen.items()
        if one is not None
    }
    return given or {"podSelector": {}}
