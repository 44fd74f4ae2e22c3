"""What a plan warns of: a gateway whose container ends before its own bounds do."""

from collections.abc import Iterator

from mm_api.documents.model_plan import PlanWarning
from mm_api.documents.serving_plan import ServingPlan
from mm_api.gateway_memory import gateway_bytes
from mm_api.v1alpha1 import MultimodalModelSpec

_MIB = 1 << 20


def gateway_limit_warnings(spec: MultimodalModelSpec, plan: ServingPlan) -> Iterator[PlanWarning]:
    """Yield a warning where the spec's memory limit is below what the gateway holds itself to.

    Args:
        spec: the model's spec.
        plan: with the limits that the gateway enforces.
    """
    resources = spec.gateway.resources
    bounds = gateway_bytes(plan.gateway, encodes=plan.trtllm_serve is not None)
    if resources.memory_limit is None or resources.memory_limit >= bounds:
        return
    yield PlanWarning(
        code="GatewayMemoryBelowBounds",
        message=f"gateway.resources.limits.memory is {resources.limits['memory']}, but the "
        f"gateway bounds bodies and decoders to {-(-bounds // _MIB)}Mi together: large images of "
        "several clients may end the container, and every request in it. Raise the limit or leave "
        "it out, or lower gateway.maxImagePixels or gateway.maxImageBytes",
    )
