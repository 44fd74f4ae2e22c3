"""Version v1alpha1 of the custom resource: one file per part of the spec, and the status.

Belongs here: types with description, default and bounds on every field; rules between fields; the
table of fields without behaviour yet. Must not: do I/O, plan, know the operator or the runtime.
May import: `mm_api.base`, pydantic and the standard library's pure parts.
"""

from mm_api.v1alpha1.autoscaling import (
    AutoscalingSpec,
    Fallback,
    Objective,
)
from mm_api.v1alpha1.behavior import Behavior, ScalingPolicy, ScalingRules
from mm_api.v1alpha1.build import BuildSpec, StoreClaim, StoreSpec
from mm_api.v1alpha1.engine import EngineSpec, KvCache, Lora, Parallelism
from mm_api.v1alpha1.gateway import GatewaySpec
from mm_api.v1alpha1.model import (
    HuggingFaceSource,
    ModelSource,
    ModelSpec,
    PersistentVolumeClaimSource,
    S3Source,
)
from mm_api.v1alpha1.names import SecretKeyRef, SecretRef
from mm_api.v1alpha1.plan_status import MemoryStatus, PlanStatus
from mm_api.v1alpha1.pod import (
    Gpu,
    Resources,
    RuntimeGpu,
    Scheduling,
    Toleration,
    TopologySpread,
    UserIds,
)
from mm_api.v1alpha1.prometheus import PrometheusSpec
from mm_api.v1alpha1.resource import MultimodalModel, MultimodalModelSpec
from mm_api.v1alpha1.rollout import RolloutSpec
from mm_api.v1alpha1.runtime import LabelSelector, MemoryPoolsSpec, Peer, RuntimeSpec, TritonSpec
from mm_api.v1alpha1.status import (
    BuildStatus,
    Condition,
    MultimodalModelStatus,
    ObjectiveStatus,
    ScalingChange,
    ScalingStatus,
    StartPhase,
    StartStatus,
    WorkStatus,
)
from mm_api.v1alpha1.vision import VisionSpec

__all__ = [
    "AutoscalingSpec",
    "Behavior",
    "BuildSpec",
    "BuildStatus",
    "Condition",
    "EngineSpec",
    "Fallback",
    "GatewaySpec",
    "Gpu",
    "HuggingFaceSource",
    "KvCache",
    "LabelSelector",
    "Lora",
    "MemoryPoolsSpec",
    "MemoryStatus",
    "ModelSource",
    "ModelSpec",
    "MultimodalModel",
    "MultimodalModelSpec",
    "MultimodalModelStatus",
    "Objective",
    "ObjectiveStatus",
    "Parallelism",
    "Peer",
    "PersistentVolumeClaimSource",
    "PlanStatus",
    "PrometheusSpec",
    "Resources",
    "RolloutSpec",
    "RuntimeGpu",
    "RuntimeSpec",
    "S3Source",
    "ScalingChange",
    "ScalingPolicy",
    "ScalingRules",
    "ScalingStatus",
    "Scheduling",
    "SecretKeyRef",
    "SecretRef",
    "StartPhase",
    "StartStatus",
    "StoreClaim",
    "StoreSpec",
    "Toleration",
    "TopologySpread",
    "TritonSpec",
    "UserIds",
    "VisionSpec",
    "WorkStatus",
]
