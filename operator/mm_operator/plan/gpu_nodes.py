"""Whether a node has the GPUs of one pod: an engine that no node can hold is not built."""

from mm_api.conditions import Reason
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.errors import SpecError
from mm_operator.model import EnginePlan, GpuNode
from mm_operator.plan.engine.gpu import admitted
from mm_operator.plan.engine.gpu_resource import is_shared, resource_of

_PATH = "spec.engine.parallelism"


def node_problem(
    spec: MultimodalModelSpec, nodes: tuple[GpuNode, ...] | None, planned: EnginePlan
) -> SpecError | None:
    """Return why the ranks of a pod have no node; None: one may have room, or is not known yet.

    Nodes without a count, and a product that no node has today, prove nothing: an autoscaler may
    bring one.
    """
    ranks = len(planned.memory.per_gpu)
    if planned.gpu is None or ranks < 2:  # noqa: PLR2004  # a GPU of its own is on every such node
        return None
    product, resource = planned.gpu.product, resource_of(spec)
    having = [node for node in admitted(spec, nodes) if node.product == product]
    if any(is_shared(resource, node) for node in having):
        return SpecError(
            Reason.NOT_SUPPORTED,
            f"{ranks} ranks need {ranks} GPUs, and those of {product} are shared: two of one pod "
            "may be turns of the same GPU. Use nodes whose GPUs are not shared "
            "(spec.runtime.nodeSelector), or 1 rank",
            _PATH,
        )
    counts = [node.count for node in having if node.count is not None]
    if not counts or len(counts) < len(having) or max(counts) >= ranks:
        return None
    return SpecError(
        Reason.NOT_SUPPORTED,
        f"{ranks} ranks run in one pod, and no node has more than {max(counts)} GPUs of {product} "
        "(label nvidia.com/gpu.count): lower tensor x pipeline to that, or add a larger node; a "
        "spec.runtime.nodeSelector that only nodes to come have allows for those",
        _PATH,
    )
