"""What one reconcile decided, stage by stage, each with its reason."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildProgress, BuildResult
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import (
    EvaluationCost,
    Fit,
    MemoryPlan,
    PlanWarning,
    PoolPlan,
    Reason,
)
from mm_api.documents.serving_plan import ServingPlan
from mm_api.documents.trtllm_build import GpuModel
from mm_api.v1alpha1 import RolloutStatus
from mm_operator.errors import SpecError
from mm_operator.model.objects import Builder, Ref


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """Everything that follows from a spec, a checkpoint, a GPU and an image.

    Limits, pools and commands are in the two documents and nowhere else.
    """

    build_plan: BuildPlan
    serving_plan: ServingPlan
    gpu: GpuModel | None
    """None: the engine uses none."""

    trtllm_version: str | None
    """None: the Reference engine."""

    memory: MemoryPlan
    pool: PoolPlan
    evaluation: EvaluationCost | None
    """Cost of the comparison with the checkpoint; None: pods are not compared."""

    fit: Fit
    reasons: tuple[Reason, ...]
    warnings: tuple[PlanWarning, ...]

    @property
    def fits(self) -> bool:
        return self.fit.verdict == "Fits"


class Step(StrEnum):
    """What a decision requires."""

    DONE = "Done"
    """Nothing to do: the result is there."""
    START = "Start"
    """A Job must be created now."""
    RUNNING = "Running"
    """Under way: wait for an event."""
    WAITING = "Waiting"
    """Not possible yet: another stage comes first, or a delay must pass."""
    FAILED = "Failed"
    """A person must act, or the next attempt is due later (`Plan.recheck_after`)."""


@dataclass(frozen=True, slots=True)
class InspectDecision:
    """What becomes of the inspection."""

    step: Step
    reason: str
    message: str
    job: str = ""
    """Name of the Job that runs or must exist; empty when none must."""
    inputs_hash: str = ""
    attempt: int = 1
    round: int = 0
    """How often the source changed between inspection and build."""
    facts: ModelFacts | None = None
    """What was found; set exactly when `step` is Done."""
    inspected_at: datetime | None = None
    retry_in: float | None = None
    """Seconds until the next attempt; None when none is due by itself."""
    cause: tuple[str, str] | None = None
    """Reason and message of what the pods failed for that came before; None: nothing did."""


BuildPhase = Literal["Pending", "Waiting", "Building", "Succeeded", "Failed"]


@dataclass(frozen=True, slots=True)
class BuildDecision:
    """What becomes of the engine of the current plan."""

    step: Step
    reason: str
    message: str
    job: str = ""
    """Name of the Job that runs or must exist; empty when none must."""
    attempt: int = 1
    result: BuildResult | None = None
    """How the build ended, well or badly, when it said so."""
    failed_pods: int = 0
    phase: BuildPhase = "Pending"
    progress: BuildProgress | None = None
    """How far the running build was when its log was last read."""
    started_at: datetime | None = None
    builder: Builder | None = None
    built_at: datetime | None = None
    """When the engine was built; set with `record`."""
    record: BuildResult | None = None
    """The result that stays recorded for every model that shares the engine."""
    damage: str = ""
    """The engine was or is built again: the record of why, as it is kept."""
    stale_source: bool = False
    """The build found another source than was inspected: a new inspection is needed."""
    retry_in: float | None = None
    """Seconds until the next attempt; None when none is due by itself."""
    cause: tuple[str, str] | None = None
    """As that of an inspection."""

    @property
    def manifest_sha256(self) -> str | None:
        """Return the digest of the built engine's manifest; None: not built, or not reported."""
        return self.result.manifest_sha256 if self.result else None


@dataclass(frozen=True, slots=True)
class GarbageCollection:
    """Whether and how the model's store is swept of unused engines."""

    job: str = ""
    """Name of the last or the next sweep's Job; empty when this model sweeps nothing."""
    start: bool = False
    attempt: int = 0
    keep: tuple[str, ...] = ()
    """Fingerprints of the engines in use, when a sweep starts."""
    due_in: float | None = None
    """Seconds until the next sweep; None when none is due by time alone."""


@dataclass(frozen=True, slots=True)
class CanaryDecision:
    """The state to record; `pods`: of the new revision beside the stable ones, until then too."""

    status: RolloutStatus
    pods: int = 0
    look_in: float | None = None
    """Seconds until time alone changes the decision; None: it does not."""

    replaces: bool = False
    """The recorded state lets pods of the new revision replace the stable ones."""


@dataclass(frozen=True, slots=True)
class RolloutDecision:
    """Which engine and serving plan the pods get, and how far they are."""

    step: Step
    reason: str
    message: str
    serving_hash: str = ""
    """Empty while nothing may be served."""
    held: bool = False
    """The pods keep the recorded revision: the engine of the current plan is not there yet, or it
    is not this model's turn."""
    spec_digest: str = ""
    by_turns: bool = False
    waits_for_turn: bool = False
    """The pods keep the recorded revision until it is this model's turn."""
    canary: CanaryDecision | None = None
    """None: the rollout is none, or knows nothing of the revision."""
    complete: bool = False
    """Every wanted pod runs this serving plan and no older pod is left."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Every decision of one reconcile. `children` and `status` follow it and decide nothing."""

    inspect: InspectDecision
    build: BuildDecision
    rollout: RolloutDecision
    problem: SpecError | None = None
    """The spec cannot be carried out; whatever serves now is left as it is."""
    engine: EnginePlan | None = None
    """Every number and document; also of an engine that does not fit, and is not built."""
    frozen: bool = False
    """Change and delete nothing: the spec is not understood."""
    keep: frozenset[Ref] = frozenset()
    """Existing objects that stay as they are: neither applied again nor pruned."""
    pods_to_restart: frozenset[Ref] = frozenset()
    """Pods that refused an engine that is complete again: deleted, so that others start now."""
    release: tuple[str, ...] = ()
    """Names of engine ConfigMaps this model no longer needs: it leaves their owners."""
    garbage_collection: GarbageCollection = GarbageCollection()
    engine_config: str = ""
    """Name of the ConfigMap of the current plan's engine; empty while there is no plan."""
    recheck_after: float | None = None
    """Seconds until time alone changes a decision; None when only events do."""

    @property
    def build_plan(self) -> BuildPlan | None:
        """Return what the build Job reads; None while nothing may be built."""
        return self.engine.build_plan if self.engine and not self.problem else None

    @property
    def serving_plan(self) -> ServingPlan | None:
        """Return what the pods get once the engine is built; None while nothing may be built.

        While the rollout is held, the recorded one is used instead.
        """
        return self.engine.serving_plan if self.engine and not self.problem else None


@dataclass(frozen=True, slots=True)
class StageError:
    """An error of one stage of the reconcile: observe, plan, apply, prune, status.

    `reason` says what `mm_operator.cluster.refusals` recognises, or NameTaken for an object that is
    not ours; else ClusterError. `message` is a sentence without generated names or times.
    """

    stage: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the edge did with the children of one plan."""

    applied: tuple[Ref, ...] = ()
    """Objects that were wanted; those that needed no write included."""
    changed: tuple[Ref, ...] = ()
    deleted: tuple[Ref, ...] = ()
    errors: tuple[StageError, ...] = ()
