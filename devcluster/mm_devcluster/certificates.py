"""Which certificates a cluster needs: a plan of names, organisations and alternative names.

The names are those that Kubernetes' default RBAC roles know, so no binding has to be made.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mm_devcluster.addresses import Address

NODE_NAME = "node1"
DAYS = 3650  # a development cluster must not die of age


@dataclass(frozen=True)
class Certificate:
    """One certificate to be issued."""

    name: str
    """File stem: NAME.crt and NAME.key."""
    common_name: str
    authority: str
    """File stem of the signing CA; its own name means self-signed."""
    organization: str = ""
    server_names: tuple[str, ...] = ()
    """Alternative names as openssl writes them: ``DNS:x``, ``IP:y``."""


AUTHORITY = "ca"
FRONT_PROXY_AUTHORITY = "front-proxy-ca"


def plan_certificates(server_addresses: Sequence[Address]) -> tuple[Certificate, ...]:
    """List every certificate of a cluster, authorities first.

    Args:
        server_addresses: Addresses under which the API server is reached besides 127.0.0.1; the
            last one is the node's, if there is a node.
    """
    api_names = (
        "DNS:kubernetes",
        "DNS:kubernetes.default",
        "DNS:kubernetes.default.svc",
        "DNS:kubernetes.default.svc.cluster.local",
        "DNS:localhost",
        "IP:127.0.0.1",
        *(f"IP:{address}" for address in server_addresses),
    )
    kubelet_names = (f"DNS:{NODE_NAME}", *(f"IP:{address}" for address in server_addresses[-1:]))
    masters = "system:masters"

    def client(name: str, common_name: str, organization: str = "") -> Certificate:
        return Certificate(name, common_name, AUTHORITY, organization)

    return (
        Certificate(AUTHORITY, "kubernetes", AUTHORITY),
        Certificate(FRONT_PROXY_AUTHORITY, "front-proxy", FRONT_PROXY_AUTHORITY),
        Certificate("apiserver", "kube-apiserver", AUTHORITY, server_names=api_names),
        client("apiserver-kubelet", "kube-apiserver-kubelet", masters),
        client("admin", "admin", masters),
        client("controller-manager", "system:kube-controller-manager"),
        client("scheduler", "system:kube-scheduler"),
        client("kube-proxy", "system:kube-proxy"),
        client("kubelet", f"system:node:{NODE_NAME}", "system:nodes"),
        Certificate("kubelet-server", NODE_NAME, AUTHORITY, server_names=kubelet_names),
        Certificate("front-proxy-client", "front-proxy-client", FRONT_PROXY_AUTHORITY),
    )
