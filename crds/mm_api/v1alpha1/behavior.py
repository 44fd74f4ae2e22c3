"""`spec.autoscaling.behavior`: how quickly replicas may change, as in autoscaling/v2."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from mm_api.base import ApiModel


class ScalingPolicy(ApiModel):
    """The most that replicas may change within a period."""

    type: Literal["Pods", "Percent"] = Field(description="What `value` counts.")
    value: int = Field(ge=1, le=10_000, description="Pods, or percent of the replicas.")
    period_seconds: int = Field(ge=1, le=1800, description="Length of the period.")


class ScalingRules(ApiModel):
    """The limits of one direction."""

    stabilization_window_seconds: int | None = Field(
        default=None,
        ge=0,
        le=3600,
        description="Seconds over which the most careful recommendation counts. Absent: 0 upward; "
        "downward what the measured cold start requires.",
    )
    select_policy: Literal["Max", "Min", "Disabled"] = Field(
        default="Max",
        description="Which of several policies counts; Disabled forbids this direction.",
    )
    # A list of YAML becomes a tuple: the policy of autoscaling hashes its rules.
    policies: Annotated[
        tuple[ScalingPolicy, ...],
        Field(max_length=8),
        BeforeValidator(lambda given: tuple(given) if isinstance(given, list) else given),
    ] = Field(default=(), description="Limits of the speed. None: no limit.")


class Behavior(ApiModel):
    """The limits of both directions."""

    scale_up: ScalingRules = Field(default=ScalingRules(), description="Limits upward.")
    scale_down: ScalingRules = Field(default=ScalingRules(), description="Limits downward.")
