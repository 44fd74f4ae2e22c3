"""The records that flow through one reconcile: what was seen, what was decided, what was done.

`mm_operator.cluster` makes `Snapshot` and `Outcome`; `plan`, `children` and `status` turn them into
decisions, objects and status. Everything is frozen and holds values only: no client, no clock.

Contents of ConfigMaps and termination messages travel as the text that was found. The pure half
parses them, so that a damaged document is a decision like any other and never an I/O error.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from mm_api import labels
from mm_api.conditions import Reason
from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_progress import BuildProgress
from mm_api.documents.build_result import BuildResult
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import ModelPlan
from mm_api.documents.serving_plan import ServingPlan
from mm_api.v1alpha1 import MultimodalModelSpec, ScalingStatus
from mm_operator.errors import SpecError


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """One object of the model's namespace, by kind and name."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """An entry of ownerReferences, reduced to what tells owners apart."""

    name: str
    uid: str


# --- what was seen ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConfigState:
    """A ConfigMap of ours: `data` as found, unparsed."""

    name: str
    uid: str
    data: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[Owner, ...] = ()


@dataclass(frozen=True, slots=True)
class PodEnd:
    """How one pod of a Job ended.

    `reason` is the container's (OOMKilled, Error, Completed), `pod_reason` the pod's (Evicted,
    DeadlineExceeded, NodeLost ...) or empty, with `pod_message` the kubelet's sentence about it.
    `message` is the termination message as found, empty when the container wrote none; `log_tail`
    is then the end of its log, oldest line first.
    """

    pod: str
    succeeded: bool
    exit_code: int | None
    reason: str = ""
    pod_reason: str = ""
    pod_message: str = ""
    message: str = ""
    log_tail: tuple[str, ...] = ()
    disrupted: bool = False
    """The pod has the condition DisruptionTarget: node lost, drained or preempted."""
    finished_at: datetime | None = None


class JobPhase(StrEnum):
    """Where a Job stands, read from its status and conditions."""

    PENDING = "Pending"
    """No condition yet and no pod runs or ended well: being scheduled, blocked by a quota, pulling
    its image, or between two attempts."""
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Builder:
    """The model whose Job built or builds an engine."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        """Return what people read."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class JobState:
    """A Job of ours and how its pods ended.

    `reason` and `message` are those of the condition Failed (BackoffLimitExceeded, DeadlineExceeded
    and so on). `waiting` says in one sentence why no pod runs: the scheduler's message, the
    image pull error, or the quota that refuses pods; empty when unknown. `finished_at` is the
    transition time of Complete or Failed. `ends` is oldest first.
    """

    name: str
    uid: str
    phase: JobPhase
    created: datetime
    finished_at: datetime | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    failed_pods: int = 0
    reason: str = ""
    message: str = ""
    waiting: str = ""
    started_at: datetime | None = None
    """When the container that runs now was started."""
    progress: str = ""
    """The end of the log of the pod that runs now, as last read; builds only."""
    ends: tuple[PodEnd, ...] = ()
    deleting: bool = False
    """metadata.deletionTimestamp is set: the name is not free yet."""
    namespace: str = ""

    @property
    def builder(self) -> Builder | None:
        """Return whose build Job this is; None for other Jobs, and for one that does not say."""
        name, uid = self.annotations.get(labels.MADE_FOR), self.annotations.get(labels.MADE_BY)
        return Builder(self.namespace, name, uid) if name and uid else None


@dataclass(frozen=True, slots=True)
class EngineState:
    """What models of one namespace share about one engine: its ConfigMap and its build Jobs.

    `jobs` are those named `<name of the ConfigMap>-<attempt>`, in any order.
    """

    config: ConfigState | None = None
    jobs: tuple[JobState, ...] = ()


@dataclass(frozen=True, slots=True)
class Sibling:
    """The same engine in the same store, as another namespace has it."""

    namespace: str
    config: ConfigState
    jobs: tuple[JobState, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredEngine:
    """An engine that some model of some namespace wants or serves from a store."""

    namespace: str
    config: ConfigState


@dataclass(frozen=True, slots=True)
class ClaimState:
    """The operator-made store claim. Size and class of an existing claim are never changed."""

    name: str
    phase: str
    size: str
    storage_class: str | None
    access_modes: tuple[str, ...]
    owners: tuple[Owner, ...] = ()


@dataclass(frozen=True, slots=True)
class DeploymentState:
    """A Deployment's status, reduced to what the rollout and the status need.

    `serving_hash` is the annotation `labels.SERVING_HASH` of its pod template. `replica_failure` is
    the message of the condition ReplicaFailure (quota, admission), `stalled` that of Progressing
    with reason ProgressDeadlineExceeded; both empty when all is well.
    """

    name: str
    uid: str
    generation: int
    observed_generation: int
    wanted: int
    """spec.replicas."""
    replicas: int
    updated: int
    ready: int
    available: int
    serving_hash: str = ""
    replica_failure: str = ""
    stalled: str = ""


@dataclass(frozen=True, slots=True)
class PodDamage:
    """What a pod said that could not load its engine: which file is damaged, and when."""

    message: str
    found_at: datetime


@dataclass(frozen=True, slots=True)
class PodState:
    """A serving pod. Names and IPs stay out: status text must not hold generated names.

    `waiting` is the reason of a waiting container (CrashLoopBackOff, ErrImagePull ...) with
    `waiting_message`; `last_end` is its previous termination as one sentence; `unschedulable` is
    the scheduler's message.
    """

    serving_hash: str
    phase: str
    ready: bool
    container: str = ""
    """The container that `waiting` and `last_end` speak of."""
    waiting: str = ""
    waiting_message: str = ""
    last_end: str = ""
    restarts: int = 0
    unschedulable: str = ""
    terminating: bool = False
    damage: PodDamage | None = None
    """A container that does not run now ended because the engine is damaged."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The children as the caches know them.

    `configs` and `jobs` (by name) carry the label `labels.MODEL` of this model. `engines` maps the
    name of an engine's ConfigMap to what the namespace shares about that engine; it holds every
    engine of the namespace, may be a live view of a cache and is only asked by name.
    `owned_engines` names those of them that this model owns. `refs` lists every existing object
    labelled with this model, for pruning.
    """

    configs: Mapping[str, ConfigState] = field(default_factory=dict)
    jobs: Mapping[str, JobState] = field(default_factory=dict)
    engines: Mapping[str, EngineState] = field(default_factory=dict)
    owned_engines: frozenset[str] = frozenset()
    siblings: Mapping[str, tuple[Sibling, ...]] = field(default_factory=dict)
    """Key of an engine in its store -> what other namespaces have of it; asked like `engines`."""
    stored: Mapping[str, tuple[StoredEngine, ...]] = field(default_factory=dict)
    """Key of a store -> its engines in use, of every namespace; asked like `engines`."""
    store: ClaimState | None = None
    deployment: DeploymentState | None = None
    pods: tuple[PodState, ...] = ()
    refs: frozenset[Ref] = frozenset()


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The operator's own settings that change what is planned."""

    runtime_image: str
    """Image of inspect, build and serving pods unless the spec names another."""
    builder_version: str
    """Version of the build code; part of every fingerprint."""
    every_namespace: bool = True
    """The operator sees the models of every namespace."""


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node with GPUs, as its labels describe it; None: it has no such label."""

    name: str
    product: str
    memory_mib: int | None
    compute_capability: str | None
    count: int | None
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ScalingView:
    """What the autoscaler last said about a model: its part of the status, and its condition."""

    status: ScalingStatus
    active: bool
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One model and everything a decision about it may depend on."""

    name: str
    namespace: str
    uid: str
    generation: int
    created: datetime
    spec: MultimodalModelSpec | None
    """None exactly when `spec_error` is set."""
    spec_error: SpecError | None
    status: Mapping[str, Any]
    """The status as last written, camelCase; empty before the first."""
    settings: PlanSettings
    observed: Observed
    now: datetime
    store_sharers: tuple[Owner, ...] = ()
    """Every model of the namespace that uses the operator-made store, this one included, sorted by
    name: a function of the specs alone, so that two reconciles never disagree about it."""
    gpu_nodes: tuple[GpuNode, ...] | None = None
    """Nodes with GPUs, by name; None: the operator may not read nodes."""
    store_identity: str = ""
    """What tells the volume of the user's store from others; empty when nobody else can use it."""
    deleting: bool = False
    scaling: ScalingView | None = None
    """None while the autoscaler did not look at the model yet; the status then stays as it is."""


# --- what was decided ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Choice:
    """One number of the plan: the field, its value, and why it has this value."""

    field: str
    value: str
    reason: str


class Step(StrEnum):
    """What a decision asks for."""

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
    """What the status calls it."""
    progress: BuildProgress | None = None
    """How far the running build was when its log was last read."""
    started_at: datetime | None = None
    """When the pod that builds now was started."""
    builder: Builder | None = None
    """The model whose Job built or builds the engine."""
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


@dataclass(frozen=True, slots=True)
class Collection:
    """Whether and how the model's store is swept of engines that nobody uses."""

    job: str = ""
    """Name of the last or the next sweep's Job; empty when this model sweeps nothing."""
    start: bool = False
    attempt: int = 0
    keep: tuple[str, ...] = ()
    """Fingerprints of the engines in use, when a sweep starts."""
    due_in: float | None = None
    """Seconds until the next sweep; None when none is due by time alone."""
    problem: str = ""
    """Why nothing is removed although the spec asks for it."""


@dataclass(frozen=True, slots=True)
class RolloutDecision:
    """Which engine and serving plan the pods get, and how far they are."""

    step: Step
    reason: str
    message: str
    serving_hash: str = ""
    """Empty while nothing may be served."""
    held: bool = False
    """The pods keep the recorded revision: the engine of the current plan is not there yet."""
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
    build_plan: BuildPlan | None = None
    serving_plan: ServingPlan | None = None
    """What the pods get once the engine is built; while the rollout is held, the recorded one is
    used instead."""
    sizes: ModelPlan | None = None
    """Every number of the plan; also of one that does not fit."""
    choices: tuple[Choice, ...] = ()
    frozen: bool = False
    """Change and delete nothing: the spec is not understood."""
    keep: frozenset[Ref] = frozenset()
    """Existing objects that stay as they are: neither applied again nor pruned."""
    release: tuple[str, ...] = ()
    """Names of engine ConfigMaps this model no longer needs: it leaves their owners."""
    collection: Collection = Collection()
    store_key: str = ""
    """Key of the model's store, equal for all who use it; empty while there is no plan."""
    shared_engine: str = ""
    """Key of the engine in a store that other namespaces may use too; empty in one's own."""
    engine_config: str = ""
    """Name of the ConfigMap of the current plan's engine; empty while there is no plan."""
    recheck_after: float | None = None
    """Seconds until time alone changes a decision; None when only events do."""


# --- what was done ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StageError:
    """An error of one stage of the reconcile: observe, plan, apply, prune, status.

    `reason` is QuotaExceeded for a quota's refusal, else ClusterError. `message` is a sentence
    without generated names or times.
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
