"""`spec.autoscaling`: latency objectives and the bounds within which replicas follow them."""

from typing import Annotated, Literal

from pydantic import Field

from mm_api.base import ApiModel
from mm_api.v1alpha1.behavior import Behavior
from mm_api.v1alpha1.duration import Duration

ObjectiveMetric = Literal["TimeToFirstToken", "InterTokenLatency", "RequestLatency", "QueueTime"]
ScalingEngine = Literal["Builtin", "KEDA"]
ScalingMode = Literal["Off", "Recommend", "Enforce"]


class Objective(ApiModel):
    """A latency that must be kept."""

    metric: ObjectiveMetric = Field(description="Which latency.")
    percentile: int = Field(
        default=95, ge=1, le=99, description="Share of requests, in percent, that keep the target."
    )
    target: Duration = Field(description="The latency to keep, for example 500ms.")


class Fallback(ApiModel):
    """What happens when metrics are missing."""

    failures: int = Field(
        default=4,
        ge=1,
        le=1000,
        description="Ticks in a row without metrics after which replicas are raised.",
    )
    replicas: int = Field(
        ge=1, le=1000, description="Replicas to raise to; a higher number is kept."
    )


class AutoscalingSpec(ApiModel):
    """How the number of replicas follows the load."""

    mode: ScalingMode = Field(
        default="Enforce",
        description="Enforce sets the replicas, Recommend only writes what it would do into "
        "status.scaling, Off does nothing.",
    )
    engine: ScalingEngine = Field(
        default="Builtin",
        description="Who sets the number of replicas: the operator itself, or a KEDA "
        "ScaledObject that the operator writes.",
    )
    min_replicas: int = Field(
        default=1,
        ge=0,
        le=1000,
        description="Fewest replicas. 0: none while no requests come; the router of the chart "
        "holds the next one until a replica answers.",
    )
    scale_to_zero_after: Duration = Field(
        default="15m",
        description="With minReplicas 0: time without a request after which the model has no "
        "replica. The default is five times a start of three minutes.",
    )
    max_replicas: int = Field(default=1, ge=1, le=1000, description="Most replicas.")
    warm_replicas: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Replicas beyond those the load needs, ready for a burst that comes quicker "
        "than a pod starts.",
    )
    objectives: Annotated[list[Objective], Field(max_length=8)] = Field(
        default=[], description="Latencies to keep; each metric at most once."
    )
    behavior: Behavior = Field(
        default=Behavior(), description="How quickly replicas may change, as in autoscaling/v2."
    )
    fallback: Fallback | None = Field(
        default=None, description="What happens when metrics are missing. Absent: replicas stay."
    )

    @property
    def to_zero(self) -> bool:
        """Return whether the model is moved to no replica, and back."""
        return self.min_replicas == 0 and self.mode == "Enforce"
