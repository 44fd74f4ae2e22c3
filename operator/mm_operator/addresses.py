"""Addresses of checkpoints, adapters and stores as `mm-runtime` takes them; none holds a secret."""

from mm_api.contract import ADAPTERS_MOUNT, SOURCE_MOUNT
from mm_api.v1alpha1 import Lora, ModelSource, MultimodalModelSpec
from mm_api.v1alpha1.model import S3Source


def adapter_addresses(spec: MultimodalModelSpec) -> dict[str, str]:
    """Return name -> address, as `mm-runtime --adapter` takes it."""
    return {one.name: _adapter_address(spec, one) for one in spec.engine.lora}


def bucket_address(s3: S3Source) -> str:
    return f"s3://{s3.bucket}/{s3.prefix.strip('/')}".rstrip("/")


def remote_address(source: ModelSource, commit: str | None = None) -> str:
    """Return the address of a source that is no claim; empty: it is one.

    `commit`: what a revision stood for when it was inspected.
    """
    if hub := source.hugging_face:
        return f"hf://{hub.repo}@{commit or hub.revision}"
    if archive := source.archive:
        return f"{archive.url}#sha256={archive.sha256}"
    return bucket_address(source.s3) if source.s3 else ""


def source_directory(path: str) -> str:
    """Return the checkpoint's directory inside a pod; `path` is relative to the claim's root."""
    return below(SOURCE_MOUNT, path.strip("/"))


def below(mount: str, path: str) -> str:
    return f"{mount}/{path}" if path else mount


def _adapter_address(spec: MultimodalModelSpec, adapter: Lora) -> str:
    source = adapter.source
    if address := remote_address(source):
        return address
    claim, own = source.persistent_volume_claim, spec.model.source.persistent_volume_claim
    assert claim is not None  # noqa: S101  # exactly one of the four: a rule of the API
    if own is not None and own.claim_name == claim.claim_name:
        return source_directory(claim.path)
    return f"{ADAPTERS_MOUNT}/{claim.claim_name}/{claim.path.strip('/')}".rstrip("/")
