"""A node of a development cluster that plays one with GPUs.

It gets the labels of NVIDIA's feature discovery, and an extended resource that is advertised as
Kubernetes documents it, by a change of the node's status.
https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from mm_devcluster.cluster import ClusterInfo
from support.clusters import kubectl, read
from support.gpu_nodes import H100, node_object

GPU = "nvidia.com/gpu"


@contextmanager
def gpu_node(cluster: ClusterInfo, count: int) -> Iterator[str]:
    node = str(read(cluster, "nodes")["items"][0]["metadata"]["name"])
    marks = node_object(node, H100)["metadata"]["labels"]
    try:
        kubectl(cluster, "label", "node", node, *(f"{key}={text}" for key, text in marks.items()))
        advertise(cluster, node, GPU, count)
        yield node
    finally:
        kubectl(cluster, "label", "node", node, *(f"{key}-" for key in marks))
        advertise(cluster, node, GPU, None)


def advertise(cluster: ClusterInfo, node: str, resource: str, count: int | None) -> None:
    change = {"status": {"capacity": {resource: None if count is None else str(count)}}}
    patch = ["patch", "node", node, "--subresource=status", "--type=merge", "-p"]
    kubectl(cluster, *patch, json.dumps(change))
