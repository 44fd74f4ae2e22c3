"""What a replica of several nodes sends from node to node."""

from collections.abc import Iterator

from mm_api.documents.model_plan import PlanWarning
from mm_api.dtypes import DTYPE_BYTES
from mm_api.sentences import count
from mm_operator.plan.engine.backend import Sizes
from mm_operator.plan.engine.request import Target


def node_links(target: Target, sizes: Sizes) -> Iterator[PlanWarning]:
    """Yield nodes, ranks of each and bytes between them, of a replica that has several."""
    request, text = sizes.request, target.facts.text
    if request.nodes == 1:
        return
    here = request.tensor_parallel * request.pipeline_parallel // request.nodes
    row, step = text.hidden_size * DTYPE_BYTES[sizes.dtype], sizes.limits.engine.max_num_tokens
    if request.tensor_parallel > here:
        row *= 2 * text.layers
        why = "each layer is split over nodes, which wait for each other twice: use RDMA"
    else:
        why = "a node hands on what its layers computed"
    yield PlanWarning(
        code="Nodes",
        message=f"{request.nodes} pods of {count(here, 'rank')}, each on a node with free GPUs for "
        f"them; {row:,} bytes of each token go from node to node, {row * step:,} of a step of "
        f"{step:,} tokens ({why})",
    )
