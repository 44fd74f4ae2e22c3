"""What a serving pod asks for because the plan says so: GPUs, their product, host memory."""

from mm_api.documents.model_plan import ModelPlan
from mm_api.v1alpha1 import Gpu


def planned_gpu(asked: Gpu, sizes: ModelPlan | None) -> Gpu:
    """Return the GPUs of a pod: one for each rank, of the product that was planned for.

    An engine runs on no other product, wherever the scheduler would find room.
    """
    if sizes is None or sizes.gpu is None or sizes.memory is None:
        return asked
    product = asked.product or (None if sizes.gpu.product == "custom" else sizes.gpu.product)
    return asked.model_copy(update={"count": len(sizes.memory.per_gpu), "product": product})


def host_bytes(sizes: ModelPlan) -> int:
    """Return what the server container needs of host memory.

    With GPUs: the engine of each rank is read into host memory before it is copied to its GPU.
    """
    assert sizes.memory is not None  # noqa: S101  # a plan that is served has its numbers
    if sizes.memory.host is not None:
        return sizes.memory.host.total_bytes
    return sum(gpu.weights_bytes + gpu.vision_engine_bytes for gpu in sizes.memory.per_gpu)
