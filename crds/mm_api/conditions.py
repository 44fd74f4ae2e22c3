"""Condition types and reasons: named constants, each with one sentence for the user.

`Ready` means "can serve now". Lifecycle has conditions of its own, so that a model that is being
rebuilt can still be Ready.
"""

from enum import StrEnum


class ConditionType(StrEnum):
    """Types in the order in which they are written to the status."""

    # At least one replica answers, and the spec is not refused; or none is wanted.
    READY = "Ready"
    # At least one replica, of any revision, answers requests.
    AVAILABLE = "Available"
    # The checkpoint was inspected and every limit and byte is computed.
    PLANNED = "Planned"
    # The engine of the current plan is in the store.
    ENGINE_BUILT = "EngineBuilt"
    # Pods are being replaced or started.
    ROLLING_OUT = "RollingOut"
    # The operator itself moves the number of replicas.
    SCALING_ACTIVE = "ScalingActive"
    # Every vision encoder in a pod of its own answers; absent where there are none.
    ENCODERS_READY = "EncodersReady"
    # Something needs a person: see reason and message.
    DEGRADED = "Degraded"


class Reason(StrEnum):
    """Every reason the operator itself sets; inspect and build reasons live in their documents."""

    # Planned
    INSPECTING = "Inspecting"
    INSPECT_PENDING = "InspectPending"
    INSPECT_FAILED = "InspectFailed"
    PLAN_COMPLETE = "PlanComplete"
    INVALID_SPEC = "InvalidSpec"
    NOT_SUPPORTED = "NotSupported"
    GPU_UNKNOWN = "GpuUnknown"
    IMAGE_UNKNOWN = "ImageUnknown"
    DOES_NOT_FIT = "DoesNotFit"
    IMAGE_NOT_USABLE = "ImageNotUsable"
    DELETING = "Deleting"
    # EngineBuilt
    WAITING_FOR_PLAN = "WaitingForPlan"
    BUILDING = "Building"
    BUILD_PENDING = "BuildPending"
    WAITING_FOR_BUILD = "WaitingForBuild"
    BUILD_SUCCEEDED = "BuildSucceeded"
    BUILD_FAILED = "BuildFailed"
    BUILD_OUT_OF_MEMORY = "BuildOutOfMemory"
    BUILD_TIMED_OUT = "BuildTimedOut"
    BUILD_EVICTED = "BuildEvicted"
    ENGINE_CORRUPT = "EngineCorrupt"
    ENGINE_MISMATCH = "EngineMismatch"
    # RollingOut, Available, Ready
    WAITING_FOR_ENGINE = "WaitingForEngine"
    WAITING_FOR_TURN = "WaitingForTurn"
    ROLLOUTS_STOPPED = "RolloutsStopped"
    PODS_STARTING = "PodsStarting"
    PODS_UNSCHEDULABLE = "PodsUnschedulable"
    VOLUME_UNAVAILABLE = "VolumeUnavailable"
    FAILED_CREATE = "FailedCreate"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CREATE_CONTAINER_CONFIG_ERROR = "CreateContainerConfigError"
    WARMUP_FAILED = "WarmupFailed"
    PODS_CRASHING = "PodsCrashing"
    GPU_OUT_OF_MEMORY = "GpuOutOfMemory"
    GPU_UNUSABLE = "GpuUnusable"
    QUOTA_EXCEEDED = "QuotaExceeded"
    ROLLOUT_IN_PROGRESS = "RolloutInProgress"
    ROLLOUT_COMPLETE = "RolloutComplete"
    CANARY_PROGRESSING = "CanaryProgressing"
    CANARY_ROLLED_BACK = "CanaryRolledBack"
    REPLICAS_AVAILABLE = "ReplicasAvailable"
    NO_REPLICAS = "NoReplicas"
    SCALED_TO_ZERO = "ScaledToZero"
    WAITING_FOR_SLOT = "WaitingForSlot"
    EVALUATION_FAILED = "EvaluationFailed"
    EVALUATION_MISSING = "EvaluationMissing"
    # ScalingActive
    AUTOSCALING_OFF = "AutoscalingOff"
    RECOMMEND_ONLY = "RecommendOnly"
    FOLLOWING_LOAD = "FollowingLoad"
    CAPACITY_LIMITED = "CapacityLimited"
    METRICS_MISSING = "MetricsMissing"
    REPLICAS_CONTESTED = "ReplicasContested"
    ENGINE_NOT_AVAILABLE = "EngineNotAvailable"
    WAITING_FOR_METRICS = "WaitingForMetrics"
    # Degraded
    AS_EXPECTED = "AsExpected"
    CLUSTER_ERROR = "ClusterError"
    NAME_TAKEN = "NameTaken"
    MEMORY_POOL_EXHAUSTED = "MemoryPoolExhausted"
    NAMESPACE_NOT_ENABLED = "NamespaceNotEnabled"
    STORE_CANNOT_GROW = "StoreCannotGrow"
    MPS_UNAVAILABLE = "MpsUnavailable"
    KERNELS_UNAVAILABLE = "KernelsUnavailable"
