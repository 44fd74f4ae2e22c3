"""Nodes with GPUs as NVIDIA's GPU feature discovery labels them."""

from typing import Any

from mm_operator.cluster.nodes import gpu_node
from mm_operator.model import GpuNode

H100, L4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4"


def node_object(name: str, product: str, **changes: str | None) -> dict[str, Any]:
    """Return a Node of the API; a label that is changed to None is left out."""
    marks = {
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.compute.major": "9",
        "nvidia.com/gpu.compute.minor": "0",
        "nvidia.com/gpu.count": "8",
        **changes,
    }
    present = {key: text for key, text in marks.items() if text is not None}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": present}}


def node(name: str, product: str, **changes: str | None) -> GpuNode:
    return gpu_node(node_object(name, product, **changes))
