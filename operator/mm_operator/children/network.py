"""Services and NetworkPolicies of a model's pods: which port is open to whom.

Kubelets pass policies by.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mm_operator.children.metadata import Manifest


def opened(ports: Sequence[int], peers: Sequence[Manifest] = ()) -> Manifest:
    """Return a rule that opens TCP ports to some pods; no peers: to everyone."""
    rule: Manifest = {"ports": [{"port": port, "protocol": "TCP"} for port in ports]}
    return {"from": list(peers), **rule} if peers else rule


def build_service_of(
    metadata: Manifest, selected: Mapping[str, str], ports: Mapping[str, int], **more: Any
) -> Manifest:
    """Return the Service of the selected pods, whose ports have the same names as its own."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            **more,
            "selector": dict(selected),
            "ports": [
                {"name": name, "port": number, "protocol": "TCP", "targetPort": name}
                for name, number in ports.items()
            ],
        },
    }


def build_network_policy(
    metadata: Manifest, selected: dict[str, str], rules: Sequence[Manifest]
) -> Manifest:
    """Return a policy for what enters the selected pods; what no rule opens is closed."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": {"matchLabels": selected},
            "policyTypes": ["Ingress"],
            "ingress": list(rules),
        },
    }
