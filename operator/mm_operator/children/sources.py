"""How a Job reaches the checkpoint: its `--source`, and the environment with the credentials.

Secrets are named, never read: the kubelet puts their values into the container's environment, so
none is in an argument, a ConfigMap, a status or an operator's log.
"""

from mm_api.contract import Flag
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_api.v1alpha1.model import HuggingFaceSource, S3Source
from mm_api.v1alpha1.network import NetworkSpec
from mm_operator.addresses import adapter_addresses, remote_address, source_directory
from mm_operator.children.metadata import Manifest
from mm_operator.plan import adapters

S3_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
S3_SESSION = "AWS_SESSION_TOKEN"
"""Only in Secrets with temporary keys."""


def source_argument(spec: MultimodalModelSpec, commit: str | None = None) -> str:
    """Return the address of the checkpoint, as `mm-runtime --source` takes it.

    `commit`: what the revision stood for when it was inspected; a build fetches that.
    """
    source = spec.model.source
    claim = source.persistent_volume_claim
    return remote_address(source, commit) or source_directory(claim.path if claim else "")


def adapter_arguments(spec: MultimodalModelSpec) -> list[str]:
    """Return where the LoRA adapters are, as `mm-runtime inspect` and `build` take it."""
    found = adapter_addresses(spec).items()
    return [part for name, address in found for part in (Flag.ADAPTER, f"{name}={address}")]


def source_environment(spec: MultimodalModelSpec, network: NetworkSpec) -> list[Manifest]:
    """Return the variables that lead to a remote checkpoint and remote adapters; none for claims.

    All that come from one kind of server are reached alike: the plan says so otherwise.
    """
    sources = list(adapters.remote_sources(spec))
    hub = next((one.hugging_face for one in sources if one.hugging_face), None)
    bucket = next((one.s3 for one in sources if one.s3), None)
    return [
        *(_hub(hub, network) if hub else []),
        *(bucket_environment("SOURCE", bucket) if bucket else []),
    ]


def store_environment(spec: MultimodalModelSpec) -> list[Manifest]:
    """Return the variables that lead to a store in a bucket; none for a claim."""
    bucket = spec.build.store.s3
    return bucket_environment("STORE", bucket) if bucket else []


def bucket_environment(role: str, bucket: S3Source) -> list[Manifest]:
    """Return the variables that lead to a bucket, as SOURCE or STORE; builds may use both."""
    prefix = f"MM_{role}_"
    variables: list[Manifest] = []
    if bucket.endpoint:
        variables.append({"name": f"{prefix}AWS_ENDPOINT_URL", "value": bucket.endpoint})
    if bucket.region:
        variables.append({"name": f"{prefix}AWS_REGION", "value": bucket.region})
    if bucket.credentials_secret_ref:
        secret = bucket.credentials_secret_ref.name
        variables += [_secret(f"{prefix}{key}", secret, key) for key in S3_KEYS]
        variables.append(_secret(f"{prefix}{S3_SESSION}", secret, S3_SESSION, optional=True))
    return variables


def _hub(hub: HuggingFaceSource, network: NetworkSpec) -> list[Manifest]:
    variables: list[Manifest] = []
    if endpoint := hub.endpoint or network.hub_endpoint:
        variables.append({"name": "HF_ENDPOINT", "value": endpoint})
    if hub.token_secret_ref:
        variables.append(_secret("HF_TOKEN", hub.token_secret_ref.name, hub.token_secret_ref.key))
    return variables


def _secret(variable: str, secret: str, key: str, *, optional: bool = False) -> Manifest:
    reference: Manifest = {"name": secret, "key": key}
    if optional:
        reference["optional"] = True
    return {"name": variable, "valueFrom": {"secretKeyRef": reference}}
