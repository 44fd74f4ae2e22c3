"""`spec.autoscaling`: latency objectives and the bounds within which replicas follow them."""

from typing import Annotated, Literal

from pydantic import Field

from mm_api.base import ApiModel
from mm_api.v1alpha1.duration import Duration
from mm_api.v1alpha1.names import SecretKeyRef

ObjectiveMetric = Literal["TimeToFirstToken", "InterTokenLatency", "RequestLatency", "QueueTime"]
ScalingEngine = Literal["Builtin", "KEDA", "HPA"]


class Objective(ApiModel):
    """A latency that must be kept."""

    metric: ObjectiveMetric = Field(description="Which latency.")
    percentile: int = Field(
        default=95, ge=1, le=99, description="Share of requests, in percent, that keep the target."
    )
    target: Duration = Field(description="The latency to keep, for example 500ms.")


class PrometheusSpec(ApiModel):
    """Where latencies are read."""

    address: Annotated[str, Field(pattern=r"^https?://[^\s]+$", max_length=512)] = Field(
        description="Base address of the Prometheus API, for example "
        "http://prometheus.monitoring.svc:9090."
    )
    token_secret_ref: SecretKeyRef | None = Field(
        default=None, description="Bearer token for Prometheus."
    )


class AutoscalingSpec(ApiModel):
    """How the number of replicas follows the load."""

    min_replicas: int = Field(default=1, ge=0, le=1000, description="Fewest replicas.")
    max_replicas: int = Field(default=1, ge=1, le=1000, description="Most replicas.")
    objectives: Annotated[list[Objective], Field(max_length=8)] = Field(
        default=[], description="Latencies to keep; each metric at most once."
    )
    engine: ScalingEngine = Field(
        default="Builtin", description="Who moves the number of replicas."
    )
    prometheus: PrometheusSpec | None = Field(default=None, description="Where latencies are read.")
