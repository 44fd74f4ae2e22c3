"""`spec.autoscaling`: latency objectives and the bounds within which replicas follow them."""

from typing import Annotated, Literal

from pydantic import Field

from mm_api.base import ApiModel
from mm_api.v1alpha1.behavior import Behavior
from mm_api.v1alpha1.duration import Duration
from mm_api.v1alpha1.names import DnsLabel
from mm_api.v1alpha1.prometheus import PrometheusSpec

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


class Schedule(ApiModel):
    """More replicas at known times."""

    name: DnsLabel = Field(description="Names the schedule in status, for example workdays.")
    start: Annotated[str, Field(max_length=128)] = Field(
        description="When it begins: minute, hour, day of month, month, day of week, as in cron, "
        "for example 0 8 * * 1-5."
    )
    duration: Duration = Field(description="How long it lasts, for example 10h.")
    time_zone: Annotated[str, Field(pattern=r"^[A-Za-z0-9_+/-]+$", max_length=64)] = Field(
        default="UTC", description="Name of the time zone, for example Europe/Berlin."
    )
    min_replicas: int = Field(ge=1, le=1000, description="Fewest replicas while it lasts.")


class Fallback(ApiModel):
    """What happens when metrics stay away."""

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
        description="Enforce moves replicas, Recommend only writes what it would do into "
        "status.scaling, Off does nothing.",
    )
    engine: ScalingEngine = Field(
        default="Builtin",
        description="Who moves the number of replicas: the operator itself, or a KEDA "
        "ScaledObject that the operator writes.",
    )
    min_replicas: int = Field(default=1, ge=0, le=1000, description="Fewest replicas.")
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
    custom_query: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        default=None,
        description="PromQL that answers how many replicas are wanted, as a scalar or a vector of "
        "one element, for example ceil(sum(mm_requests_running{model='$model'}) / 8). The "
        "highest of all recommendations counts; $namespace and $model stand for the model's own. "
        "Not sent to the operator's own Prometheus where the operator reads it with credentials.",
    )
    behavior: Behavior = Field(
        default=Behavior(), description="How quickly replicas may change, as in autoscaling/v2."
    )
    schedules: Annotated[list[Schedule], Field(max_length=16)] = Field(
        default=[], description="More replicas at known times; each name at most once."
    )
    fallback: Fallback | None = Field(
        default=None, description="What happens when metrics stay away. Absent: replicas stay."
    )
    prometheus: PrometheusSpec | None = Field(
        default=None, description="Where metrics are read. Absent: the operator's own setting."
    )
