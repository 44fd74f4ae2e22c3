"""The resource itself: `MultimodalModel` and the parts its spec consists of."""

from typing import Any, Literal

from pydantic import Field

from mm_api.base import ApiModel
from mm_api.v1alpha1.autoscaling import AutoscalingSpec
from mm_api.v1alpha1.build import BuildSpec
from mm_api.v1alpha1.engine import EngineSpec
from mm_api.v1alpha1.gateway import GatewaySpec
from mm_api.v1alpha1.model import ModelSpec
from mm_api.v1alpha1.network import NetworkSpec
from mm_api.v1alpha1.rollout import RolloutSpec
from mm_api.v1alpha1.runtime import RuntimeSpec
from mm_api.v1alpha1.status import MultimodalModelStatus
from mm_api.v1alpha1.vision import VisionSpec


class MultimodalModelSpec(ApiModel):
    """What is wanted."""

    model: ModelSpec = Field(description="The checkpoint.")
    engine: EngineSpec = Field(default=EngineSpec(), description="The language-model engine.")
    vision: VisionSpec = Field(default=VisionSpec(), description="The vision encoder.")
    build: BuildSpec = Field(default=BuildSpec(), description="How the engine is built.")
    runtime: RuntimeSpec = Field(default=RuntimeSpec(), description="How the engine is served.")
    gateway: GatewaySpec = Field(
        default=GatewaySpec(), description="The OpenAI endpoint in front of the engine."
    )
    network: NetworkSpec = Field(
        default=NetworkSpec(),
        description="What stands between the pods and the servers that they read from.",
    )
    rollout: RolloutSpec = Field(
        default=RolloutSpec(), description="How a new revision is rolled out."
    )
    replicas: int = Field(
        default=1,
        ge=0,
        le=1000,
        description="Number of serving pods; kubectl scale and autoscalers set it.",
    )
    autoscaling: AutoscalingSpec | None = Field(
        default=None,
        description="How the number of replicas follows the load. Absent: replicas stays as set.",
    )


class MultimodalModel(ApiModel):
    """A multimodal model that is built, served and scaled."""

    api_version: Literal["serving.multimodal.dev/v1alpha1"]
    kind: Literal["MultimodalModel"]
    metadata: dict[str, Any]
    spec: MultimodalModelSpec
    status: MultimodalModelStatus | None = None
