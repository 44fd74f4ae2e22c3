"""LoRA adapters of a spec: their claims, and whether one Job can reach all of them."""

from collections.abc import Iterator

from mm_api.v1alpha1 import ModelSource, MultimodalModelSpec
from mm_api.v1alpha1.model import HuggingFaceSource, S3Source
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
    for kind, ways in (("huggingFace", list(_hubs(spec))), ("s3", list(_buckets(spec)))):
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


def _hubs(spec: MultimodalModelSpec) -> Iterator[HuggingFaceSource]:
    for source in remote_sources(spec):
        if source.hugging_face:
            yield source.hugging_face.model_copy(update={"repo": "", "revision": ""})


def _buckets(spec: MultimodalModelSpec) -> Iterator[S3Source]:
    for source in remote_sources(spec):
        if source.s3:
            yield source.s3.model_copy(update={"bucket": "", "prefix": ""})
