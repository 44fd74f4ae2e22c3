"""How far a build is: one line of the Job's log, written by the build and read by the operator.

The line begins with `PROGRESS_MARK`; the rest is the document as JSON on one line. A pod may not
write its own annotations, and its termination message is read only once it has ended.
"""

from typing import Literal

from pydantic import Field, ValidationError

from mm_api.base import Document
from mm_api.documents.build_plan import FINGERPRINT_PATTERN

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
