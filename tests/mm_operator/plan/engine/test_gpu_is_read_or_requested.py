"""The GPU of a plan: the nodes' labels, else the spec, else a question that says how to answer."""

from typing import Any

from mm_api.documents.trtllm_build import GpuModel
from mm_operator.cluster.nodes import NodeCache
from mm_operator.errors import SpecError
from mm_operator.model import GpuNode
from mm_operator.plan.engine.gpu import choose_gpu
from support.golden import Golden
from support.gpu_nodes import H100, L4, node
from support.models import spec_of

MIB = 1 << 20


BLACKWELL = "NVIDIA-B999"
SEEN = GpuModel(product=BLACKWELL, memory_bytes=1000, compute_capability="12.0")


def chosen(
    runtime: dict[str, Any], nodes: tuple[GpuNode, ...] | None, before: GpuModel | None = None
) -> str:
    """Return product, memory without the driver's and compute capability, or the question."""
    try:
        gpu = choose_gpu(spec_of({"runtime": runtime}), nodes, before)
    except SpecError as error:
        return f"{error.reason} {error.path}: {error.message}"
    return f"{gpu.product}, {gpu.memory_bytes // MIB} MiB, {gpu.compute_capability}"


KNOWN: dict[str, tuple[tuple[GpuNode, ...] | None, dict[str, Any], GpuModel | None]] = {
    "labels": ((node("a", BLACKWELL),), {}, None),
    "smallest-of-a-product": (
        (node("a", BLACKWELL), node("b", BLACKWELL, **{"nvidia.com/gpu.memory": "40000"})),
        {},
        None,
    ),
    "spec-decides-between-products": (
        (node("a", H100), node("b", L4)),
        {"gpu": {"product": L4}},
        None,
    ),
    "node-selector-decides": (
        (node("a", H100), node("b", L4, zone="x")),
        {"nodeSelector": {"zone": "x"}},
        None,
    ),
    "table-where-a-label-is-missing": (
        (node("a", L4, **{"nvidia.com/gpu.memory": None}),),
        {},
        None,
    ),
    "table-without-nodes": (None, {"gpu": {"product": H100}}, None),
    "spec-alone": (
        (),
        {"gpu": {"product": BLACKWELL, "memory": "1000Mi", "computeCapability": "12.0"}},
        None,
    ),
    "spec-without-a-product": (
        (),
        {"gpu": {"memory": "1000Mi", "computeCapability": "12.0"}},
        None,
    ),
    "product-of-the-last-plan-stays": (
        (node("a", H100), node("b", L4)),
        {},
        GpuModel(product=L4, memory_bytes=MIB, compute_capability="8.9"),
    ),
    "product-that-no-node-has-any-more": (
        (node("a", L4),),
        {},
        GpuModel(product=H100, memory_bytes=MIB, compute_capability="9.0"),
    ),
}


def test_gpu_is_known(golden: Golden) -> None:
    """Labels win over the spec's numbers and the table; the last plan decides between equals."""
    found = {
        name: chosen(runtime, nodes, before) for name, (nodes, runtime, before) in KNOWN.items()
    }
    golden.check_yaml("gpus/known.yaml", found)


SLICE = "nvidia.com/mig-3g.40gb"
SLICES = {
    f"{SLICE}.product": f"{H100}-MIG-3g.40gb",
    f"{SLICE}.memory": "40448",
    f"{SLICE}.count": "2",
}


PARTS: dict[str, tuple[dict[str, str], str | None]] = {
    "by-turns": (
        {"nvidia.com/gpu.product": f"{H100}-SHARED", "nvidia.com/gpu.replicas": "4"},
        None,
    ),
    "shared-under-another-name": ({"nvidia.com/gpu.replicas": "2"}, "nvidia.com/gpu.shared"),
    "slice": (SLICES, SLICE),
    "entire-gpu-beside-slices": (SLICES, None),
    "shared-slice": ({**SLICES, f"{SLICE}.replicas": "2"}, f"{SLICE}.shared"),
}


def test_parts_of_gpus_are_planned(golden: Golden) -> None:
    """A slice has labels and memory of its own, and a pod that shares a GPU gets its part."""
    found = {
        name: chosen({"gpu": {"resourceName": resource}}, (node("a", H100, **marks),))
        for name, (marks, resource) in PARTS.items()
    }
    golden.check_yaml("gpus/parts.yaml", found)


def test_gpu_of_the_last_plan_survives_the_last_node() -> None:
    """An autoscaler may take every node of a model that waits: the plan stays as it was."""
    assert choose_gpu(spec_of(), (), SEEN) == SEEN


UNKNOWN: dict[str, tuple[tuple[GpuNode, ...] | None, dict[str, Any]]] = {
    "no-such-slice": ((node("a", H100),), {"gpu": {"resourceName": SLICE}}),
    "no-node": ((), {}),
    "no-right": (None, {}),
    "several-products": ((node("a", H100), node("b", L4)), {}),
    "selector-leaves-all-out": ((node("a", H100),), {"nodeSelector": {"zone": "x"}}),
    "unknown-product": ((), {"gpu": {"product": BLACKWELL}}),
}


def test_unknown_gpu_is_a_question(golden: Golden) -> None:
    found = {name: chosen(runtime, nodes) for name, (nodes, runtime) in UNKNOWN.items()}
    golden.check_yaml("gpus/unknown.yaml", found)


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
