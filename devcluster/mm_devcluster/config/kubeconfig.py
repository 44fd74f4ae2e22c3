"""Kubeconfig files, with their certificates inside so that one file is enough to move."""

import base64
import json


def build_kubeconfig(
    server: str, name: str, *, authority: bytes, certificate: bytes, key: bytes
) -> str:
    """Return a kubeconfig as JSON, which every reader of YAML accepts.

    Args:
        server: ``https://host:port``.
        name: Name of the cluster, user and context.
        authority: PEM of the CA that signed the server's certificate.
        certificate: PEM of the client's certificate.
        key: PEM of the client's key.
    """

    def encode(pem: bytes) -> str:
        return base64.b64encode(pem).decode()

    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {"server": server, "certificate-authority-data": encode(authority)},
            }
        ],
        "users": [
            {
                "name": name,
                "user": {
                    "client-certificate-data": encode(certificate),
                    "client-key-data": encode(key),
                },
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return json.dumps(document, indent=2) + "\n"
