"""The resource itself: `MultimodalModel` and the parts its spec consists of."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

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
    """The desired state."""

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
        description="How pods reach other servers: proxy, authorities, mirrors.",
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


_WORD: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY: Final = re.compile(rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_WORD}")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _as_kubernetes_has_it(metadata: dict[str, Any]) -> dict[str, Any]:
    """Refuse what the API server would: YAML reads `yes`, `1` and `1.0` as no text."""
    namespace = metadata.get("namespace")
    if namespace is not None and not _NAMESPACE.fullmatch(str(namespace)):
        message = f"namespace {namespace!r} is not allowed: use a-z, 0-9 and '-', for example demo"
        raise ValueError(message)
    kinds = ("labels", "annotations")
    for kind, key, value in ((one, *pair) for one in kinds for pair in _pairs(metadata, one)):
        if not _KEY.fullmatch(str(key)):
            message = f"{kind} has the key {key!r}: write it for example as example.org/team"
        elif not isinstance(value, str):
            message = f"{kind}.{key} is {value!r}, which is no text: write it in quotes"
        elif kind == "labels" and value and not re.fullmatch(_WORD, value):
            message = f"{kind}.{key} is {value!r}: use up to 63 letters, digits, '-', '_' and '.'"
        else:
            continue
        raise ValueError(message)
    return metadata


def _pairs(metadata: dict[str, Any], kind: str) -> list[tuple[Any, Any]]:
    found = metadata.get(kind) or {}
    if not isinstance(found, dict):
        message = f"{kind} is {found!r}: write names and texts, for example team: vision"
        raise ValueError(message)  # noqa: TRY004 - pydantic reports no TypeError
    return list(found.items())


class MultimodalModel(ApiModel):
    """A multimodal model that is built, served and scaled."""

    api_version: Literal["serving.multimodal.dev/v1alpha1"]
    kind: Literal["MultimodalModel"]
    metadata: Annotated[dict[str, Any], AfterValidator(_as_kubernetes_has_it)]
    spec: MultimodalModelSpec
    status: MultimodalModelStatus | None = None
