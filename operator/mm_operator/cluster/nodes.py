"""The GPUs of the cluster, read from the labels that NVIDIA's GPU feature discovery gives nodes.

Only metadata is fetched, and only of nodes with a product label. Labels: the page
https://github.com/NVIDIA/k8s-device-plugin/blob/main/docs/gpu-feature-discovery/README.md
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from mm_api import labels
from mm_operator.model import GpuNode

MEMORY = "nvidia.com/gpu.memory"
COUNT = "nvidia.com/gpu.count"
SHARES = "nvidia.com/gpu.replicas"
MAJOR, MINOR = "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor"


class NodeCache:
    """Every node with a GPU; a `mm_operator.cluster.reflector.Sink`.

    `on_change`: called when what a plan could read of the nodes is not what it was.
    """

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._on_change = on_change
        self._nodes: dict[str, GpuNode] = {}
        self._uids: dict[str, str] = {}
        self._known: tuple[GpuNode, ...] | None = None

    def gpus(self) -> tuple[GpuNode, ...] | None:
        """Return the nodes by name; None while they were never listed, for want of a right say."""
        return self._known

    def put(self, kind: str, item: dict[str, Any]) -> None:
        """Take one listed, added or changed node; a heartbeat changes nothing."""
        del kind  # this sink has one
        self._nodes[item["metadata"]["name"]] = gpu_node(item)
        self._uids[item["metadata"]["name"]] = item["metadata"]["uid"]
        if self._known is not None:  # else the list is not complete yet
            self._notify()

    def keep(
        self, kind: str, uids: Collection[str], *, namespace: str | None, version: int
    ) -> None:
        """End a list: nodes that are not in it are gone; only the list and the watch add nodes."""
        del kind, namespace, version
        for name in [name for name, uid in self._uids.items() if uid not in uids]:
            del self._nodes[name], self._uids[name]
        self._notify()

    def remove(self, kind: str, item: dict[str, Any]) -> None:
        """Forget a node that went or lost its label."""
        del kind
        self._nodes.pop(item["metadata"]["name"], None)
        self._uids.pop(item["metadata"]["name"], None)
        self._notify()

    def _notify(self) -> None:
        now = tuple(self._nodes[name] for name in sorted(self._nodes))
        if now != self._known:
            self._known = now
            self._on_change()


def gpu_node(item: Mapping[str, Any]) -> GpuNode:
    """Return what a plan may read of a node; a label that is no number counts as absent."""
    marks = item["metadata"].get("labels") or {}
    major, minor = _number(marks.get(MAJOR)), _number(marks.get(MINOR))
    return GpuNode(
        name=item["metadata"]["name"],
        product=marks.get(labels.GPU_PRODUCT, ""),
        memory_mib=_number(marks.get(MEMORY)),
        compute_capability=None if major is None or minor is None else f"{major}.{minor}",
        count=_number(marks.get(COUNT)),
        labels=dict(marks),
        shares=_number(marks.get(SHARES)) or 1,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
