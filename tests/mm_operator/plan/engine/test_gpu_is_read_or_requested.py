"""The GPU of a plan: the nodes' labels, else the spec, else a question that says how to answer."""

from typing import Any

import pytest

from mm_api.documents.trtllm_build import GpuModel
from mm_operator.cluster.nodes import NodeCache
from mm_operator.errors import SpecError
from mm_operator.model import GpuNode
from mm_operator.plan.engine.gpu import choose_gpu
from support.cases import cases
from support.gpu_nodes import H100, L4, node
from support.models import spec_of

MIB = 1 << 20
DRIVER_MIB = 480
"""What the driver keeps of each GPU: see the table of GPUs."""


BLACKWELL = "NVIDIA-B999"
SEEN = GpuModel(product=BLACKWELL, memory_bytes=1000, compute_capability="12.0")


@cases(
    "nodes runtime before expected",
    {
        "labels": ((node("a", BLACKWELL),), {}, None, (BLACKWELL, 81559 - DRIVER_MIB, "9.0")),
        "smallest-of-a-product": (
            (node("a", BLACKWELL), node("b", BLACKWELL, **{"nvidia.com/gpu.memory": "40000"})),
            {},
            None,
            (BLACKWELL, 40000 - DRIVER_MIB, "9.0"),
        ),
        "spec-decides-between-products": (
            (node("a", H100), node("b", L4)),
            {"gpu": {"product": L4}},
            None,
            (L4, 81559 - DRIVER_MIB, "9.0"),
        ),
        "node-selector-decides": (
            (node("a", H100), node("b", L4, zone="x")),
            {"nodeSelector": {"zone": "x"}},
            None,
            (L4, 81559 - DRIVER_MIB, "9.0"),
        ),
        "table-where-a-label-is-missing": (
            (node("a", L4, **{"nvidia.com/gpu.memory": None}),),
            {},
            None,
            (L4, 23034 - DRIVER_MIB, "8.9"),
        ),
        "table-without-nodes": (
            None,
            {"gpu": {"product": H100}},
            None,
            (H100, 81559 - DRIVER_MIB, "9.0"),
        ),
        "spec-alone": (
            (),
            {"gpu": {"product": BLACKWELL, "memory": "1000Mi", "computeCapability": "12.0"}},
            None,
            (BLACKWELL, 1000, "12.0"),
        ),
        "spec-without-a-product": (
            (),
            {"gpu": {"memory": "1000Mi", "computeCapability": "12.0"}},
            None,
            ("custom", 1000, "12.0"),
        ),
        "product-of-the-last-plan-stays": (
            (node("a", H100), node("b", L4)),
            {},
            GpuModel(product=L4, memory_bytes=MIB, compute_capability="8.9"),
            (L4, 81559 - DRIVER_MIB, "9.0"),
        ),
        "product-that-no-node-has-any-more": (
            (node("a", L4),),
            {},
            GpuModel(product=H100, memory_bytes=MIB, compute_capability="9.0"),
            (L4, 81559 - DRIVER_MIB, "9.0"),
        ),
    },
)
def test_gpu_is_known(
    nodes: tuple[GpuNode, ...] | None,
    runtime: dict[str, Any],
    before: GpuModel | None,
    expected: tuple[str, int, str],
) -> None:
    """Labels win over the spec's numbers and the table; the last plan decides between equals."""
    gpu = choose_gpu(spec_of({"runtime": runtime}), nodes, before)

    assert expected == (gpu.product, gpu.memory_bytes // MIB, gpu.compute_capability)


SLICE = "nvidia.com/mig-3g.40gb"
SLICES = {
    f"{SLICE}.product": f"{H100}-MIG-3g.40gb",
    f"{SLICE}.memory": "40448",
    f"{SLICE}.count": "2",
}


@cases(
    "marks resource expected",
    {
        "by-turns": (
            {"nvidia.com/gpu.product": f"{H100}-SHARED", "nvidia.com/gpu.replicas": "4"},
            None,
            (f"{H100}-SHARED", 81559 // 4 - DRIVER_MIB),
        ),
        "shared-under-another-name": (
            {"nvidia.com/gpu.replicas": "2"},
            "nvidia.com/gpu.shared",
            (H100, 81559 // 2 - DRIVER_MIB),
        ),
        "slice": (SLICES, SLICE, (f"{H100}-MIG-3g.40gb", 40448 - DRIVER_MIB)),
        "entire-gpu-beside-slices": (SLICES, None, (H100, 81559 - DRIVER_MIB)),
        "shared-slice": (
            {**SLICES, f"{SLICE}.replicas": "2"},
            f"{SLICE}.shared",
            (f"{H100}-MIG-3g.40gb", 40448 // 2 - DRIVER_MIB),
        ),
    },
)
def test_parts_of_gpus_are_planned(
    marks: dict[str, str], resource: str | None, expected: tuple[str, int]
) -> None:
    """A slice has labels and memory of its own, and a pod that shares a GPU gets its part."""
    runtime = {"gpu": {"resourceName": resource}}
    nodes = (node("a", H100, **marks),)

    gpu = choose_gpu(spec_of({"runtime": runtime}), nodes, None)

    assert (gpu.product, gpu.memory_bytes // MIB, gpu.compute_capability) == (*expected, "9.0")


def test_nodes_without_the_slice_are_left_out() -> None:
    """A node whose GPUs are not cut describes no slice."""
    spec = spec_of({"runtime": {"gpu": {"resourceName": SLICE}}})

    with pytest.raises(SpecError, match="the GPU is"):
        choose_gpu(spec, (node("a", H100),), None)


def test_gpu_of_the_last_plan_survives_the_last_node() -> None:
    """An autoscaler may take every node of a model that waits: the plan stays as it was."""
    assert choose_gpu(spec_of(), (), SEEN) == SEEN


@cases(
    "nodes runtime words",
    {
        "no-node": ((), {}, "No node has the label nvidia.com/gpu.product"),
        "no-right": (None, {}, "does not read nodes"),
        "several-products": ((node("a", H100), node("b", L4)), {}, f"{H100} and {L4}"),
        "selector-leaves-all-out": (
            (node("a", H100),),
            {"nodeSelector": {"zone": "x"}},
            "matches spec.runtime.nodeSelector",
        ),
        "unknown-product": ((), {"gpu": {"product": BLACKWELL}}, f"memory of an {BLACKWELL}"),
    },
)
def test_unknown_gpu_is_a_question(
    nodes: tuple[GpuNode, ...] | None, runtime: dict[str, Any], words: str
) -> None:
    """The question names what the cluster has and the field that answers it."""
    with pytest.raises(SpecError) as requested:
        choose_gpu(spec_of({"runtime": runtime}), nodes, None)

    assert (requested.value.reason, requested.value.path) == (
        "GpuUnknown",
        "spec.runtime.gpu.product",
    )
    assert words in requested.value.message


def test_heartbeats_start_no_reconciliation() -> None:
    """Only a change of what plans read is reported, an empty first list included."""
    reported: list[int] = []
    cache = NodeCache(on_change=lambda: reported.append(len(cache.gpus() or ())))
    marks = {"nvidia.com/gpu.product": L4}
    item = {"metadata": {"name": "a", "uid": "uid-of-a", "labels": marks}}

    cache.keep("Node", set(), namespace=None, version=1)
    cache.put("Node", item)
    cache.put("Node", {**item, "metadata": {**item["metadata"], "resourceVersion": "2"}})
    cache.remove("Node", item)

    assert reported == [0, 1, 0]
