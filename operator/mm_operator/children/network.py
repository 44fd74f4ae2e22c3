"""NetworkPolicies of a model's pods: which port is open to whom. Kubelets pass them by."""

from collections.abc import Sequence

from mm_operator.children.metadata import Manifest


def opened(ports: Sequence[int], peers: Sequence[Manifest] = ()) -> Manifest:
    """Return a rule that opens TCP ports to some pods; no peers: to everyone."""
    rule: Manifest = {"ports": [{"port": port, "protocol": "TCP"} for port in ports]}
    return {"from": list(peers), **rule} if peers else rule


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
