"""LoRA adapters of a spec: their claims, and whether one Job can reach all of them."""

from collections.abc import Iterator

from mm_api.v1alpha1 import ModelSource, MultimodalModelSpec
from mm_operator.errors import SpecError

PATH = "spec.engine.lora"


def claims(spec: MultimodalModelSpec) -> tuple[str, ...]:
    """Return the claims that hold adapters and not the checkpoint, sorted."""
    own = spec.model.source.persistent_volume_claim
    found = {
        claim.claim_name
        for one in spec.engine.lora
        if (claim := one.source.persistent_volume_claim) is not None
    }
    return tuple(sorted(found - ({own.claim_name} if own else set())))


def access_problem(spec: MultimodalModelSpec) -> SpecError | None:
    """Return what is wrong with how adapters are reached: Jobs have one set of credentials."""
    sources = [*remote_sources(spec)]
    hubs = [
        one.hugging_face.model_copy(update={"repo": "", "revision": ""})
        for one in sources
        if one.hugging_face
    ]
    buckets = [one.s3.model_copy(update={"bucket": "", "prefix": ""}) for one in sources if one.s3]
    for kind, ways in (("huggingFace", hubs), ("s3", buckets)):
        if any(way != ways[0] for way in ways):
            return SpecError(
                "InvalidSpec",
                f"adapters and checkpoint come from {kind} with different endpoints or secrets, "
                "and a Job has one set: use the same for all of them, or a claim",
                PATH,
            )
    return None


def remote_sources(spec: MultimodalModelSpec) -> Iterator[ModelSource]:
    yield spec.model.source
    yield from (one.source for one in spec.engine.lora)
