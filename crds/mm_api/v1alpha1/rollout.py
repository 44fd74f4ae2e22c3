"""`spec.rollout`: how pods of a new revision replace the old ones."""

from typing import Literal

from pydantic import Field

from mm_api.base import ApiModel
from mm_api.v1alpha1.duration import Duration

Strategy = Literal["Rolling", "Canary"]


class RolloutSpec(ApiModel):
    """How a new revision is rolled out."""

    strategy: Strategy = Field(
        default="Rolling",
        description="Rolling replaces pods one by one and never goes below the wanted number.",
    )
    progress_deadline: Duration = Field(
        default="30m", description="A rollout without progress for so long is reported as stuck."
    )
    drain_timeout: Duration | None = Field(
        default=None,
        description="Longest time a pod may take to finish its requests; at least 2s more than "
        "gateway.requestTimeout. Absent: exactly that.",
    )
