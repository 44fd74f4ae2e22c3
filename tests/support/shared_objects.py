"""A ConfigMap that several models own."""

from typing import Any

from mm_api import labels


def config(*owners: str, version: int = 1, **data: str) -> dict[str, Any]:
    references = [
        {"apiVersion": labels.API_VERSION, "kind": labels.KIND, "name": name, "uid": f"{name}-uid"}
        for name in owners
    ]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": "demo",
            "name": "engine-1",
            "uid": "e",
            "resourceVersion": str(version),
            "ownerReferences": references,
        },
        "data": data,
    }
