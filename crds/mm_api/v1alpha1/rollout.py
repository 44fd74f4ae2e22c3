"""`spec.rollout`: how pods of a new revision replace the old ones."""

from typing import Literal

from pydantic import Field

from mm_api.base import ApiModel
from mm_api.v1alpha1.duration import Duration

Strategy = Literal["Rolling", "Recreate", "Canary"]


class RolloutSpec(ApiModel):
    """How a new revision is rolled out."""

    strategy: Strategy = Field(
        default="Rolling",
        description="Rolling replaces pods one by one and by default never goes below the wanted "
        "number, which takes a free GPU for each GPU of a pod. Recreate ends every pod before the "
        "first new one starts: no GPU has to be free, and nothing answers in between.",
    )
    max_surge: int | None = Field(
        default=None,
        ge=0,
        le=1000,
        description="Pods above the wanted number during a rollout with strategy Rolling. 0: an "
        "old pod ends before its successor starts, so that no GPU has to be free; needs a "
        "maxUnavailable of 1 or more. Absent: 1.",
    )
    max_unavailable: int | None = Field(
        default=None,
        ge=0,
        le=1000,
        description="Pods below the wanted number during a rollout with strategy Rolling; with one "
        "replica, 1 means that nothing answers meanwhile. Absent: 0.",
    )
    require_evaluation: bool = Field(
        default=False,
        description="Ready waits for an evaluation of the served engine without a difference, in "
        "status.evaluation: of the pods (build.evaluation), or of mmctl compare. false: an engine "
        "that nothing was compared with may be Ready.",
    )
    progress_deadline: Duration = Field(
        default="30m", description="A rollout without progress for so long is reported as stuck."
    )
    drain_timeout: Duration | None = Field(
        default=None,
        description="Longest time a pod may take to finish its requests; at least 2s more than "
        "gateway.requestTimeout. Absent: exactly that.",
    )
