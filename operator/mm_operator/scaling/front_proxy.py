"""Who may call an aggregated API: the API server, by the certificate that it publishes itself.

https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/
"""

import json
import ssl
from dataclasses import dataclass
from typing import Any

from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import CONFIG
from mm_operator.errors import ClusterError

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """The authority of the API server's own certificate, and the common names it may have."""

    authority: str
    """PEM."""
    names: tuple[str, ...]
    """Empty: every name that the authority signed."""

    def restrict(self, context: ssl.SSLContext) -> None:
        """Let a server take connections with a certificate of the authority only.

        Raises:
            ssl.SSLError: the authority is no PEM.
        """
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self.authority)

    def admits(self, certificate: dict[str, Any] | None) -> bool:
        """Return whether a verified certificate, as `ssl` describes it, is the API server's."""
        if certificate is None:
            return False
        subject = {name: value for part in certificate["subject"] for name, value in part}
        return not self.names or subject.get("commonName") in self.names


async def read_front_proxy(client: Client) -> FrontProxy:
    """Return what the API server publishes of itself.

    Raises:
        ClusterError: it may not be read, or the cluster has no aggregation layer.
    """
    found = await client.get(CONFIG, NAMESPACE, NAME)
    published = (found or {}).get("data") or {}
    authority = published.get("requestheader-client-ca-file", "")
    if not authority:
        raise ClusterError(
            0, CONFIG.kind, NAME, "names no authority: the API server's aggregation layer is off"
        )
    return FrontProxy(
        authority, tuple(json.loads(published.get("requestheader-allowed-names", "[]")))
    )
