"""`spec.model`: which checkpoint, from where, and how far it is trusted."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from mm_api.base import ApiModel
from mm_api.families import FAMILIES
from mm_api.v1alpha1.names import ObjectName, RelativePath, SecretKeyRef, SecretRef

if TYPE_CHECKING:
    Family = str
else:
    Family = Literal[tuple(FAMILIES)]
"""Every family the API knows; `unsupported.json` says which of them this version serves."""


class HuggingFaceSource(ApiModel):
    """A repository on the Hugging Face Hub."""

    repo: Annotated[
        str, Field(pattern=r"^[-._a-zA-Z0-9]+(/[-._a-zA-Z0-9]+)?$", min_length=1, max_length=192)
    ] = Field(description="Name of the repository, for example llava-hf/llava-1.5-7b-hf.")
    revision: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        default="main",
        description="Branch, tag or commit. It is pinned to its commit when the checkpoint is "
        "inspected (status.plan.sourceRevision) and looked up again when spec.model changes.",
    )
    token_secret_ref: SecretKeyRef | None = Field(
        default=None, description="Access token for gated and private repositories."
    )
    endpoint: Annotated[str, Field(pattern=r"^https?://[^\s]+$", max_length=512)] | None = Field(
        default=None, description="A mirror that speaks the Hub's API; absent: huggingface.co."
    )


class PersistentVolumeClaimSource(ApiModel):
    """A directory on a claim in the model's namespace. It is mounted read-only."""

    claim_name: ObjectName = Field(
        description="Name of the PersistentVolumeClaim, for example checkpoints."
    )
    path: RelativePath = Field(
        default="",
        description="Directory of the checkpoint in the volume, relative to its root, for example "
        "llava/checkpoint. Empty: the root itself.",
    )


class S3Source(ApiModel):
    """A prefix in an S3 bucket."""

    bucket: Annotated[
        str, Field(pattern=r"^[a-z0-9][-.a-z0-9]+[a-z0-9]$", min_length=3, max_length=63)
    ] = Field(description="Name of the bucket, for example models.")
    prefix: RelativePath = Field(default="", description="Key prefix of the checkpoint's files.")
    region: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="Region of the bucket; absent: the client's default."
    )
    endpoint: Annotated[str, Field(pattern=r"^https?://[^\s]+$", max_length=512)] | None = Field(
        default=None, description="Endpoint of an S3-compatible store; absent: AWS."
    )
    credentials_secret_ref: SecretRef | None = Field(
        default=None, description="Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
    )


class ArchiveSource(ApiModel):
    """An archive with a checkpoint in one folder, behind an address that needs no credentials.

    It may hold FairSeq's own layout, which is converted to the one that transformers reads.
    """

    url: Annotated[str, Field(pattern=r"^https://[^\s?#@]+\.tar\.(bz2|gz)$", max_length=1024)] = (
        Field(
            description="Address of a .tar.bz2 or .tar.gz, without credentials and query, for "
            "example https://models.example.org/wmt14.en-fr.tar.bz2."
        )
    )
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", max_length=64)] = Field(
        description="Digest of the archive: the output of sha256sum. An archive with another one "
        "is not unpacked."
    )


class ModelSource(ApiModel):
    """Where the checkpoint comes from: exactly one of the fields."""

    hugging_face: HuggingFaceSource | None = Field(
        default=None, description="Fetched from the Hugging Face Hub."
    )
    persistent_volume_claim: PersistentVolumeClaimSource | None = Field(
        default=None, description="Read from a volume in the model's namespace."
    )
    s3: S3Source | None = Field(default=None, description="Fetched from an S3 bucket.")
    archive: ArchiveSource | None = Field(
        default=None, description="Unpacked from an archive behind an HTTPS address."
    )


class ModelSpec(ApiModel):
    """The checkpoint."""

    family: Family | None = Field(
        default=None,
        description="Model family. Absent: detected from the checkpoint's config.json. When set, "
        "a checkpoint of another family is refused.",
    )
    source: ModelSource = Field(description="Where the checkpoint comes from.")
    allow_pickle: bool = Field(
        default=False,
        description="Accept weights in pickle files (.bin, .pt), which can run code while they "
        "are loaded. Only safetensors otherwise.",
    )
    trust_remote_code: bool = Field(
        default=False,
        description="Run Python code that the checkpoint itself brings. Refused otherwise.",
    )
