"""What NVIDIA's device plugin offers as a GPU: an entire one, a MIG slice, a share in turns.

Labels: the pages of https://github.com/NVIDIA/k8s-device-plugin (GPU feature discovery; "Shared
Access to GPUs").
"""

from dataclasses import replace
from typing import Final

from mm_api import labels
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.model import GpuNode

GPU: Final = "nvidia.com/gpu"
_SHARED: Final = ".shared"
_SHARED_PRODUCT: Final = "-SHARED"
_SLICED: Final = "-MIG-"
"""In the product of nodes whose GPUs are all cut alike (MIG strategy "single")."""


def resource_of(spec: MultimodalModelSpec) -> str:
    return spec.runtime.gpu.resource_name or spec.build.gpu.resource_name or GPU


def product_label(resource: str) -> str:
    """Return the node label that names the product of a resource: with slices each has its own."""
    slices = resource.removesuffix(_SHARED)
    return labels.GPU_PRODUCT if slices == GPU else f"{slices}.product"


def with_gpus_of(node: GpuNode, resource: str) -> GpuNode | None:
    """Return a node with the GPUs of one resource alone; None: it has none of them.

    Slices (MIG strategy "mixed") are described by labels of their own beside those of the entire
    GPU, whose compute capability is theirs too.
    """
    slices = resource.removesuffix(_SHARED)
    if slices == GPU:
        return node
    product = node.labels.get(f"{slices}.product")
    if product is None:
        return None
    return replace(
        node,
        product=product,
        memory_mib=_number(node.labels.get(f"{slices}.memory")),
        count=_number(node.labels.get(f"{slices}.count")),
        shares=_number(node.labels.get(f"{slices}.replicas")) or 1,
    )


def with_entire_gpus(node: GpuNode) -> GpuNode | None:
    """Return a node with the devices of NVIDIA's own class, which no pods share; None: only slices.

    Claims know nothing of how the device plugin shares the same GPUs.
    """
    if _SLICED in node.product:
        return None
    return replace(node, product=node.product.removesuffix(_SHARED_PRODUCT), shares=1)


def shares(node: GpuNode) -> int:
    """Return how many pods share one of the node's GPUs: each is planned its part of the memory."""
    return max(node.shares, 1)


def is_shared(resource: str, node: GpuNode) -> bool:
    """Return whether two GPUs of a pod may be turns of the same one."""
    named = resource.endswith(_SHARED) or node.product.endswith(_SHARED_PRODUCT)
    return named or node.shares > 1


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
