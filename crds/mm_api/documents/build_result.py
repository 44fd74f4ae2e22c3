"""What a build Job says: how far it is, as lines of its log, and how it ended, as its last message.

A line of progress begins with `PROGRESS_MARK`; the rest is the document as JSON on one line. A pod
may not write its own annotations, and its termination message is read only once it has ended.
"""

from enum import StrEnum
from typing import Literal

from pydantic import Field, ValidationError

from mm_api.base import Document
from mm_api.documents.build_plan import FINGERPRINT_PATTERN
from mm_api.documents.engine_manifest import GpuIdentity

PROGRESS_MARK = "build-progress "


class BuildProgress(Document):
    """The step that runs now, and what the finished ones took."""

    format_version: Literal[1] = 1
    fingerprint: str = Field(pattern=FINGERPRINT_PATTERN)
    step: str = Field(default="", description="Empty: no step runs, see `waiting_for`.")
    number: int = Field(default=0, ge=0, description="Of the step, the first is 1.")
    of: int = Field(default=0, ge=0, description="Steps of this build.")
    percent: int | None = Field(
        default=None, ge=0, le=100, description="Of the running step, where its tool reports it."
    )
    total_bytes: int | None = Field(
        default=None, ge=0, description="What the running step moves, where it moves bytes."
    )
    step_seconds: dict[str, float] = Field(
        default={}, description="Finished step -> seconds it took."
    )
    waiting_for: str = Field(
        default="", description="The builder that holds the store's lock on this engine."
    )

    def line(self) -> str:
        return f"{PROGRESS_MARK}{self.to_json()}"


def last_progress(log: str) -> BuildProgress | None:
    """Return the newest progress in a log's end; lines that are cut or of other kinds are passed.

    A step may print anything, a line of this form included: the worst it does is to misreport its
    own progress.
    """
    for line in reversed(log.splitlines()):
        _, mark, text = line.partition(PROGRESS_MARK)
        if not mark:
            continue
        try:
            return BuildProgress.from_json(text)
        except ValidationError:
            continue
    return None


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
