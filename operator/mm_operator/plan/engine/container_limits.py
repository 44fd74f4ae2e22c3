"""What a plan warns of: containers that end before their own bounds do."""

from collections.abc import Iterator

from mm_api.documents.model_plan import MemoryPlan, PlanWarning
from mm_api.documents.serving_plan import ServingPlan
from mm_api.gateway_memory import gateway_bytes
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.plan.engine.container_memory import PROCESS_BYTES

_MIB = 1 << 20


def container_limit_warnings(
    spec: MultimodalModelSpec, plan: ServingPlan, memory: MemoryPlan
) -> Iterator[PlanWarning]:
    """Yield a warning for each memory limit of the spec that is below what is planned."""
    bounds = gateway_bytes(
        plan.gateway, encodes=plan.written_by_server, features_bytes=plan.features_bytes
    )
    stated = spec.gateway.resources.memory_limit
    if stated is not None and stated < bounds:
        yield PlanWarning(
            code="GatewayMemoryBelowBounds",
            message=f"gateway.resources.limits.memory is {spec.gateway.resources.limits['memory']}"
            f", but the gateway bounds bodies and decoders to {-(-bounds // _MIB)}Mi together: "
            "large images of several clients may end the container, and every request in it. Raise "
            "the limit or leave it out, or lower gateway.maxImagePixels or gateway.maxImageBytes",
        )
    stated, needed = spec.runtime.resources.memory_limit, memory.host.total_bytes + PROCESS_BYTES
    if stated is not None and stated < needed:
        yield PlanWarning(
            code="ServerMemoryBelowPlan",
            message=f"runtime.resources.limits.memory is {spec.runtime.resources.limits['memory']},"
            f" but weights, caches and processes are planned with {-(-needed // _MIB)}Mi: the "
            "container may be ended while it loads. Raise the limit or leave it out",
        )
