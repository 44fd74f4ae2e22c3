"""The manifest of a built engine: the last file a build writes, and all that serving trusts."""

from typing import Literal

from pydantic import AwareDatetime, Field

from mm_api.base import Document
from mm_api.documents.build_plan import BuildPlan

MANIFEST_NAME = "manifest.json"

CHECKPOINT_FOLDER = "checkpoint"
"""Backend PyTorch: the folder beside the manifest that holds the staged checkpoint."""

ADAPTERS_FOLDER = "adapters"
"""Backends Reference and VLLM: the folder beside the manifest that holds LoRA adapters, one
folder a name."""

TOKENIZER_FOLDER = "tokenizer"
"""The folder of a tokenizer that was made, because the checkpoint has none that servers read."""


class EngineFile(Document):
    """One file of the engine, by its path relative to the manifest."""

    path: str
    size: int = Field(ge=0, description="Bytes.")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class StepRecord(Document):
    """What one step of the build cost."""

    name: str
    seconds: float = Field(ge=0)
    peak_memory_bytes: int = Field(ge=0)


class Verification(Document):
    """How the vision engine compared with torch on sample images."""

    samples: int = Field(ge=1)
    max_abs_difference: float = Field(ge=0)
    relative_difference: float | None = Field(
        default=None, ge=0, description="Of the features' norm. None: not measured."
    )
    tolerance: float = Field(gt=0)


class GpuIdentity(Document):
    """The GPU an engine was built on, and the only kind it may be served on."""

    product: str
    compute_capability: str


class EngineManifest(Document):
    """Everything needed to serve one engine."""

    format_version: Literal[1] = 1
    fingerprint: str
    created: AwareDatetime
    plan: BuildPlan
    files: list[EngineFile]
    steps: list[StepRecord]
    versions: dict[str, str] = Field(description="Name of a tool or library -> its version.")
    gpu: GpuIdentity | None = Field(
        default=None, description="None for an engine that needs no GPU."
    )
    verification: Verification | None = None
