"""Termination message of the build Job: how the build ended."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from mm_api.base import Document
from mm_api.documents.build_plan import FINGERPRINT_PATTERN
from mm_api.documents.engine_manifest import GpuIdentity


class BuildReason(StrEnum):
    """Why a build failed. Each becomes the reason of the condition `EngineBuilt`."""

    SOURCE_CHANGED = "SourceChanged"
    SOURCE_NOT_FOUND = "SourceNotFound"
    WEIGHTS_INVALID = "WeightsInvalid"
    VERIFICATION_FAILED = "VerificationFailed"
    STORE_NOT_WRITABLE = "StoreNotWritable"
    STEP_FAILED = "StepFailed"
    IMAGE_NOT_USABLE = "ImageNotUsable"


class BuildFailure(Document):
    """Which step failed, how, and the last lines of its log."""

    reason: BuildReason
    step: str
    exit_code: int | None = Field(
        default=None,
        description="Of the step. None: it was running when this was written, and what ended it "
        "left no time to say more.",
    )
    message: str
    log_tail: list[str] = Field(
        default=[], description="Last lines of the step's log, oldest first."
    )
    retryable: bool


class BuildResult(Document):
    """Either the identity of the built engine or the failure."""

    format_version: Literal[1] = 1
    fingerprint: str = Field(pattern=FINGERPRINT_PATTERN)
    manifest_sha256: str | None = None
    reused: bool = Field(default=False, description="The store held this engine already.")
    step_seconds: dict[str, float] = Field(default={}, description="Step -> seconds.")
    stored_bytes: int | None = Field(
        default=None, ge=0, description="Of the engine's files. None: an older runtime built it."
    )
    gpu: GpuIdentity | None = Field(
        default=None, description="The GPU the engine was built on. None: it needs no GPU."
    )
    versions: dict[str, str] = Field(
        default={}, description="As in the manifest: tool or library -> its version."
    )
    failure: BuildFailure | None = None
