"""Which GPU is planned for: the nodes' labels say, else the spec and the table, else a question."""

import re
from collections.abc import Iterable, Mapping

from mm_api.conditions import Reason
from mm_api.documents.trtllm_build import CUSTOM_PRODUCT, GpuModel
from mm_api.sentences import a
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_api.v1alpha1.pod_rules import NVIDIA_GPUS
from mm_api.v1alpha1.quantity import bytes_of
from mm_operator.errors import SpecError
from mm_operator.model import GpuNode
from mm_operator.plan.engine.gpu_resource import resource_of, shares, with_entire_gpus, with_gpus_of
from mm_operator.plan.engine.tables import gpu_of, usable_bytes

PATH = "spec.runtime.gpu.product"

_CPU_BUILD = re.compile(r"[-/+]cpu(?![\w.])")
"""In vLLM's version, or in a name such as vllm/vllm-openai-cpu:v0.26.0."""


def computes_on_gpu(spec: MultimodalModelSpec, image: str | None) -> bool:
    """Return whether GPUs are planned for; `image` is that of the pods, None: of the spec."""
    traits, version = spec.engine.traits, spec.runtime.vllm_version
    if traits.has_cpu_builds:
        names = (version or "", image or spec.runtime.image or "")
        return not any(map(_CPU_BUILD.search, names))
    return traits.needs_gpu or spec.runtime.gpu.count > 0


def choose_gpu(
    spec: MultimodalModelSpec, nodes: tuple[GpuNode, ...] | None, before: GpuModel | None
) -> GpuModel:
    """Return the GPU that engine and pods are planned for; SpecError: how to choose.

    Of the spec, `runtime.gpu.product` decides and `runtime.nodeSelector` leaves nodes out. `nodes`:
    None: they may not be read. `before`: the last plan's. It is kept while a node has it, and also
    while no node has any: an autoscaler that took the last node away brings back the same.
    """
    if spec.runtime.gpu.device_class_name not in {None, NVIDIA_GPUS}:
        written = _written(spec, spec.runtime.gpu.product or CUSTOM_PRODUCT)
        if written is not None:  # labels of nodes describe other devices
            return written
    product = spec.runtime.gpu.product or spec.build.gpu.product
    seen = admitted(spec, nodes)
    products = sorted({node.product for node in seen})
    if product is None and before is not None and (not products or before.product in products):
        product = before.product
    if product is None and len(products) > 1:
        raise SpecError(
            Reason.GPU_UNKNOWN,
            f"the GPU is ambiguous: the nodes have {', '.join(products[:-1])} and {products[-1]}, "
            "and an engine runs on the product that it was built for: set it to one of them",
            PATH,
        )
    if product is None:
        product = products[0] if products else None
    if product is not None:
        matching = [node for node in seen if node.product == product]
        described = _described_by(matching, product) or _written(spec, product)
        if described is None and before is not None and before.product == product:
            described = before
        return described or _tabulated(product, nodes is None)
    if described := _written(spec, CUSTOM_PRODUCT):
        return described
    raise SpecError(
        Reason.GPU_UNKNOWN,
        f"the GPU is not known. {_nothing_seen(nodes, spec)}: set it, for example to "
        "NVIDIA-H100-80GB-HBM3, or set spec.runtime.gpu.memory and computeCapability",
        PATH,
    )


def admitted(spec: MultimodalModelSpec, nodes: tuple[GpuNode, ...] | None) -> list[GpuNode]:
    """Return the nodes that pods may run on, with the GPUs of the resource that they request."""
    resource, claims = resource_of(spec), spec.runtime.gpu.device_class_name is not None
    found = (node for node in nodes or () if _admits(spec.runtime.node_selector, node))
    seen = (with_entire_gpus(node) if claims else with_gpus_of(node, resource) for node in found)
    return [node for node in seen if node is not None]


def _admits(selector: Mapping[str, str], node: GpuNode) -> bool:
    return all(node.labels.get(key) == value for key, value in selector.items())


def _described_by(nodes: Iterable[GpuNode], product: str) -> GpuModel | None:
    """Return the GPU as nodes of one product describe it: the smallest memory, or share of one."""
    sizes = [
        (node.memory_mib // shares(node), node.compute_capability)
        for node in nodes
        if node.memory_mib and node.compute_capability
    ]
    if not sizes:
        return None
    memory, capability = min(sizes)
    return GpuModel(
        product=product, memory_bytes=usable_bytes(memory), compute_capability=capability
    )


def _written(spec: MultimodalModelSpec, product: str) -> GpuModel | None:
    """Return the GPU as the spec describes it; `runtime.gpu` goes before `build.gpu`."""
    memory = spec.runtime.gpu.memory or spec.build.gpu.memory
    capability = spec.runtime.gpu.compute_capability or spec.build.gpu.compute_capability
    if memory is None or capability is None:
        return None
    return GpuModel(product=product, memory_bytes=bytes_of(memory), compute_capability=capability)


def _tabulated(product: str, blind: bool) -> GpuModel:  # noqa: FBT001  # one caller, named there
    try:
        return gpu_of(product)
    except SpecError:
        why = "the operator does not read nodes" if blind else "no node reports its memory"
        raise SpecError(
            Reason.GPU_UNKNOWN,
            f"the memory of {a(product)} is not known: it is not in the operator's table, and "
            f"{why}. Set spec.runtime.gpu.memory and computeCapability, or give the nodes "
            "the labels nvidia.com/gpu.memory, nvidia.com/gpu.compute.major and "
            "nvidia.com/gpu.compute.minor",
            PATH,
        ) from None


def _nothing_seen(nodes: tuple[GpuNode, ...] | None, spec: MultimodalModelSpec) -> str:
    if nodes is None:
        return "The operator does not read nodes"
    if nodes and spec.runtime.node_selector:
        return "No node with GPUs matches spec.runtime.nodeSelector"
    return "No node has the label nvidia.com/gpu.product"
