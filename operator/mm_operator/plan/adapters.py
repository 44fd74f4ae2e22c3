"""LoRA adapters: where Jobs find them, and what can be said about them before anything runs."""

from collections.abc import Iterator

from mm_api.documents.lora_adapter import LoraAdapter
from mm_api.documents.model_facts import ModelFacts
from mm_api.mounts import ADAPTERS_MOUNT
from mm_api.v1alpha1 import Lora, ModelSource, MultimodalModelSpec
from mm_api.v1alpha1.model import HuggingFaceSource, S3Source
from mm_operator.errors import SpecError
from mm_operator.plan.store import bucket_address, source_directory

PATH = "spec.engine.lora"


def addresses(spec: MultimodalModelSpec) -> dict[str, str]:
    """Return name -> address, as `mm-runtime --adapter` takes it."""
    return {one.name: _address(spec, one) for one in spec.engine.lora}


def planned_adapters(spec: MultimodalModelSpec, facts: ModelFacts) -> list[LoraAdapter]:
    """Return the adapters with their uids: their places in the list of the spec."""
    where = addresses(spec)
    return [
        LoraAdapter(name=one.name, uid=uid, source=where[one.name], source_digest=one.source_digest)
        for uid, one in enumerate(facts.lora.adapters if facts.lora and where else ())
    ]


def check_inspected(spec: MultimodalModelSpec, facts: ModelFacts) -> None:
    """Refuse facts that do not tell the spec's adapters: whether they fit is not known.

    Raises:
        SpecError: what to inspect them with.
    """
    known = [one.name for one in facts.lora.adapters] if facts.lora else []
    if spec.engine.lora and known != [one.name for one in spec.engine.lora]:
        raise SpecError(
            "InvalidSpec",
            "sizes and modules of the adapters are not known: give --facts what `mm-runtime "
            "inspect --source ... --adapter NAME=SOURCE` prints (the operator does it by itself)",
            PATH,
        )


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
    names = [one.name for one in spec.engine.lora]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        return SpecError(
            "InvalidSpec", f"two adapters are called {twice[0]}: give each its own name", PATH
        )
    for kind, ways in (("huggingFace", list(_hubs(spec))), ("s3", list(_buckets(spec)))):
        if any(way != ways[0] for way in ways):
            return SpecError(
                "InvalidSpec",
                f"adapters and checkpoint come from {kind} with different endpoints, secrets or "
                "caches, and a Job has one set: use the same for all of them, or a claim",
                PATH,
            )
    hub = spec.model.source.hugging_face
    if hub is None and any(way.cache for way in _hubs(spec)):
        return SpecError(
            "InvalidSpec",
            "an adapter's cache is mounted where the checkpoint's is, and the checkpoint comes "
            "from elsewhere: name the adapter's claim as its source instead",
            PATH,
        )
    return None


def remote_sources(spec: MultimodalModelSpec) -> Iterator[ModelSource]:
    """Yield the checkpoint's source and those of the adapters."""
    yield spec.model.source
    yield from (one.source for one in spec.engine.lora)


def _address(spec: MultimodalModelSpec, adapter: Lora) -> str:
    source = adapter.source
    if source.hugging_face:
        return f"hf://{source.hugging_face.repo}@{source.hugging_face.revision}"
    if source.s3:
        return bucket_address(source.s3)
    claim, own = source.persistent_volume_claim, spec.model.source.persistent_volume_claim
    assert claim is not None  # noqa: S101  # exactly one of the three: a rule of the API
    if own is not None and own.claim_name == claim.claim_name:
        return source_directory(claim.path)
    return f"{ADAPTERS_MOUNT}/{claim.claim_name}/{claim.path.strip('/')}".rstrip("/")


def _hubs(spec: MultimodalModelSpec) -> Iterator[HuggingFaceSource]:
    for source in remote_sources(spec):
        if source.hugging_face:
            yield source.hugging_face.model_copy(update={"repo": "", "revision": ""})


def _buckets(spec: MultimodalModelSpec) -> Iterator[S3Source]:
    for source in remote_sources(spec):
        if source.s3:
            yield source.s3.model_copy(update={"bucket": "", "prefix": ""})
