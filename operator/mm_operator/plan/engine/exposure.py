"""What a plan warns of: a Triton with published holes, or without the guard of its gateway."""

from collections.abc import Iterator

from mm_api.documents.model_plan import PlanWarning
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.plan.engine.tables import release_of, table

REFERENCE_RELEASE = "24.10"
"""Release of Triton 2.51, which the CPU image takes from nvidia-pytriton 0.7.0: its newest
wheel."""


def exposure_warnings(spec: MultimodalModelSpec, image: str | None) -> Iterator[PlanWarning]:
    """Yield what a user should know about who can reach which Triton.

    `image`: of the pods; None: the operator's own.
    """
    exposed = spec.runtime.triton.expose
    if exposed and spec.gateway.auth_secret_ref is not None:
        yield PlanWarning(
            code="TritonWithoutAuth",
            message="runtime.triton.expose publishes Triton without authentication, beside a "
            "gateway that requires tokens (gateway.authSecretRef): only runtime.triton.allowFrom "
            "limits its clients",
        )
    if not spec.engine.traits.uses_triton:
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
