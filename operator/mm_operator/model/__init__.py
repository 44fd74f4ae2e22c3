"""The records that flow through one reconcile: what was seen, what was decided, what was done.

`mm_operator.cluster` makes `Snapshot` and `Outcome`; `plan`, `children` and `status` turn them into
decisions, objects and status. Everything is frozen and holds values only: no client, no clock.

Contents of ConfigMaps and termination messages travel as the text that was found. The pure half
parses them, so that a damaged document is a decision like any other and never an I/O error.

May import: `mm_api`, `mm_operator.errors`.
"""

from mm_operator.model.decisions import (
    BuildDecision,
    BuildPhase,
    CanaryDecision,
    EnginePlan,
    GarbageCollection,
    InspectDecision,
    Outcome,
    Plan,
    RolloutDecision,
    StageError,
    Step,
)
from mm_operator.model.objects import (
    Builder,
    ClaimState,
    ConfigState,
    DeploymentState,
    EngineState,
    GpuFault,
    JobPhase,
    JobState,
    Owner,
    PodDamage,
    PodEnd,
    PodStart,
    PodState,
    Ref,
    VolumeFault,
    VolumeTrouble,
)
from mm_operator.model.snapshot import (
    GpuNode,
    KedaSettings,
    Observed,
    PlanSettings,
    RolloutTurn,
    ScalingView,
    Snapshot,
    TracingSettings,
    Turn,
)
