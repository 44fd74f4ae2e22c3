"""The GPU of a plan: the nodes' labels, else the spec, else a question that says how to answer."""

from typing import Any

import pytest

from mm_api.documents.trtllm_build import GpuModel
from mm_operator.cluster.nodes import NodeCache
from mm_operator.errors import SpecError
from mm_operator.model import GpuNode
from mm_operator.plan.engine.gpu import choose_gpu
from support.gpu_nodes import H100, L4, node
from support.models import spec_of

MIB = 1 << 20
DRIVER_MIB = 480
"""What the driver keeps of each GPU: see the table of GPUs."""


BLACKWELL = "NVIDIA-B999"
SEEN = GpuModel(product=BLACKWELL, memory_bytes=1000, compute_capability="12.0")


@pytest.mark.parametrize(
    ("nodes", "runtime", "before", "expected"),
    [
        pytest.param(
            (node("a", BLACKWELL),), {}, None, (BLACKWELL, 81559 - DRIVER_MIB, "9.0"), id="labels"
        ),
        pytest.param(
            (node("a", BLACKWELL), node("b", BLACKWELL, **{"nvidia.com/gpu.memory": "40000"})),
            {},
            None,
            (BLACKWELL, 40000 - DRIVER_MIB, "9.0"),
            id="smallest-of-a-product",
        ),
        pytest.param(
            (node("a", H100), node("b", L4)),
            {"gpu": {"product": L4}},
            None,
            (L4, 81559 - DRIVER_MIB, "9.0"),
            id="spec-decides-between-products",
        ),
        pytest.param(
            (node("a", H100), node("b", L4, zone="x")),
            {"nodeSelector": {"zone": "x"}},
            None,
            (L4, 81559 - DRIVER_MIB, "9.0"),
            id="node-selector-decides",
        ),
        pytest.param(
            (node("a", L4, **{"nvidia.com/gpu.memory": None}),),
            {},
            None,
            (L4, 23034 - DRIVER_MIB, "8.9"),
            id="table-where-a-label-is-missing",
        ),
        pytest.param(
            None,
            {"gpu": {"product": H100}},
            None,
            (H100, 81559 - DRIVER_MIB, "9.0"),
            id="table-without-nodes",
        ),
        pytest.param(
            (),
            {"gpu": {"product": BLACKWELL, "memory": "1000Mi", "computeCapability": "12.0"}},
            None,
            (BLACKWELL, 1000, "12.0"),
            id="spec-alone",
        ),
        pytest.param(
            (),
            {"gpu": {"memory": "1000Mi", "computeCapability": "12.0"}},
            None,
            ("custom", 1000, "12.0"),
            id="spec-without-a-product",
        ),
        pytest.param(
            (node("a", H100), node("b", L4)),
            {},
            GpuModel(product=L4, memory_bytes=MIB, compute_capability="8.9"),
            (L4, 81559 - DRIVER_MIB, "9.0"),
            id="product-of-the-last-plan-stays",
        ),
        pytest.param(
            (node("a", L4),),
            {},
            GpuModel(product=H100, memory_bytes=MIB, compute_capability="9.0"),
            (L4, 81559 - DRIVER_MIB, "9.0"),
            id="product-that-no-node-has-any-more",
        ),
    ],
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


def test_gpu_of_the_last_plan_survives_the_last_node() -> None:
    """An autoscaler may take every node of a model that waits: the plan stays as it was."""
    assert choose_gpu(spec_of(), (), SEEN) == SEEN


@pytest.mark.parametrize(
    ("nodes", "runtime", "words"),
    [
        pytest.param((), {}, "No node has the label nvidia.com/gpu.product", id="no-node"),
        pytest.param(None, {}, "does not read nodes", id="no-right"),
        pytest.param(
            (node("a", H100), node("b", L4)), {}, f"{H100} and {L4}", id="several-products"
        ),
        pytest.param(
            (node("a", H100),),
            {"nodeSelector": {"zone": "x"}},
            "matches spec.runtime.nodeSelector",
            id="selector-leaves-all-out",
        ),
        pytest.param(
            (), {"gpu": {"product": BLACKWELL}}, f"how big is a {BLACKWELL}", id="unknown-product"
        ),
    ],
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
