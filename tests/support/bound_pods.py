"""Pods on a node that no kubelet stands behind: placed, and not begun."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from mm_devcluster.cluster import ClusterInfo
from support.model_namespace import Api
from support.volumes import made


@contextmanager
def empty_node(cluster: ClusterInfo) -> Iterator[str]:
    name = f"node-{uuid4().hex[:8]}"
    with made(cluster, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}):
        yield name


def bind(api: Api, pod: dict[str, Any], node: str) -> None:
    name = pod["metadata"]["name"]
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    path = f"/api/v1/namespaces/{api.namespace}/pods/{name}/binding"
    api.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))
