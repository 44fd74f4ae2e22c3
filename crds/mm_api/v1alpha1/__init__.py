"""Version v1alpha1 of the custom resource: one file per part of the spec, and the status.

Belongs here: types with description, default and bounds on every field; rules between fields; the
table of fields without behaviour yet. Must not: do I/O, plan, know the operator or the runtime.
May import: `mm_api.base`, pydantic and the standard library's pure parts.
"""

from mm_api.v1alpha1.autoscaling import AutoscalingSpec
from mm_api.v1alpha1.behavior import ScalingRules
from mm_api.v1alpha1.engine import Lora
from mm_api.v1alpha1.model import ModelSource
from mm_api.v1alpha1.plan_status import MemoryStatus, PlanStatus
from mm_api.v1alpha1.pod import Gpu, Resources, RuntimeGpu, Scheduling, TopologySpread, UserIds
from mm_api.v1alpha1.resource import MultimodalModelSpec
from mm_api.v1alpha1.rollout import CanaryAnswers, CanarySpec, CanaryStep, RolloutSpec
from mm_api.v1alpha1.runtime import Peer, TritonSpec
from mm_api.v1alpha1.status import (
    BuildStatus,
    ComparisonStatus,
    MultimodalModelStatus,
    ObjectiveStatus,
    RolloutPhase,
    RolloutStatus,
    ScalingChange,
    ScalingStatus,
    WorkStatus,
)
from mm_api.v1alpha1.vision import VisionSpec
