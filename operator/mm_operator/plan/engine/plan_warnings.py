"""What a plan warns of: limits of memory below their bounds, and a Triton that clients harm."""

from collections.abc import Iterator

from mm_api.documents.model_plan import MemoryPlan, PlanWarning
from mm_api.documents.serving_plan import ServingPlan
from mm_api.gateway_memory import gateway_bytes
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.plan.engine.container_memory import PROCESS_BYTES, further_bytes
from mm_operator.plan.engine.tables import release_of, table
from mm_operator.plan.engine.units import MIB

REFERENCE_RELEASE = "24.10"
"""Release of Triton 2.51, which the CPU image takes from nvidia-pytriton 0.7.0: its newest
wheel."""


def exposure_warnings(spec: MultimodalModelSpec, image: str | None) -> Iterator[PlanWarning]:
    """Yield who can reach which Triton; `image`: of the pods, None for the operator's own."""
    exposed = spec.runtime.triton.expose
    if exposed and spec.gateway.auth_secret_ref is not None:
        yield PlanWarning(
            code="TritonWithoutAuth",
            message="runtime.triton.expose publishes Triton without authentication, beside a "
            "gateway that requires tokens (gateway.authSecretRef): only runtime.triton.allowFrom "
            "limits its clients",
        )
    if not (spec.engine.traits.uses_triton or exposed):
        return
    release = release_of(image or "")
    if not spec.engine.traits.uses_trtllm and release is None and exposed:
        release = REFERENCE_RELEASE
    fixed: str = table("images")["triton"]["fixed"]
    if release is not None and release < fixed:
        yield PlanWarning(
            code="TritonOutdated",
            message=f"Triton {release} has published vulnerabilities: a client that reaches its "
            f"ports may run code (CVE-2025-23310, -23311, -23319, -23320, -23334; fixed in "
            f"{fixed}). Use an image of {fixed} or newer, or leave runtime.triton.expose false",
        )


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
            f", but the gateway bounds bodies and decoders to {-(-bounds // MIB)}Mi together: "
            "large images of several clients may end the container, and every request in it. Raise "
            "the limit or leave it out, or lower gateway.maxImagePixels or gateway.maxImageBytes",
        )
    stated = spec.runtime.resources.memory_limit
    needed = memory.host.total_bytes + PROCESS_BYTES + further_bytes(spec)
    if stated is not None and stated < needed:
        yield PlanWarning(
            code="ServerMemoryBelowPlan",
            message=f"runtime.resources.limits.memory is {spec.runtime.resources.limits['memory']},"
            f" but weights, caches and processes are planned with {-(-needed // MIB)}Mi: the "
            "container may be ended while it loads. Raise the limit or leave it out",
        )
