"""The objects of the cluster, each reduced to what a decision or the status needs of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from mm_api import labels


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """One object of the model's namespace, by kind and name."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """An entry of ownerReferences, reduced to what distinguishes owners."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ConfigState:
    """A ConfigMap of ours: `data` as found, unparsed."""

    name: str
    uid: str
    data: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[Owner, ...] = ()


class VolumeFault(StrEnum):
    """What an Event says that a scheduled pod cannot start for, worst first."""

    ATTACHED_ELSEWHERE = "MultiAttach"
    """A volume that one node may have is attached to another one."""
    NOT_ATTACHED = "FailedAttachVolume"
    NOT_MOUNTED = "FailedMount"


@dataclass(frozen=True, slots=True)
class VolumeTrouble:
    """Why the volumes of a pod are not there, and the Event's message, names of pods left out."""

    fault: VolumeFault
    message: str = ""


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
    began: bool = True
    """One of its containers ran; False: it ended while it waited for volumes or images."""
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
    volume: VolumeTrouble | None = None
    started_at: datetime | None = None
    """When the container that runs now was started."""
    progress: str = ""
    """The end of the log of the pod that runs now, as last read; builds only."""
    ends: tuple[PodEnd, ...] = ()
    deleting: bool = False
    """metadata.deletionTimestamp is set: the name is not free yet."""
    namespace: str = ""
    owner_uid: str = ""
    """Uid of the object that the Job goes with: an engine's ConfigMap, or a model."""

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
    replicas: int
    updated: int
    ready: int
    available: int
    serving_hash: str = ""
    replica_failure: str = ""
    refused_template: str = ""
    """The hash of the pod template whose pods are refused; empty: the refusal does not say."""
    stalled: str = ""
    spec_digest: str = ""
    by_turns: bool = False
    was_complete: bool = False
    """The revision of its pods was complete, now or before."""
    template: Mapping[str, Any] = field(default_factory=dict)
    """Template of its pods, as the API server has it: what a revision keeps that is held."""


@dataclass(frozen=True, slots=True)
class PodDamage:
    """What a pod said that could not load its engine: which file is damaged, and when."""

    message: str
    found_at: datetime


@dataclass(frozen=True, slots=True)
class GpuFault:
    """What a pod said of its GPU."""

    usable: bool
    """It has too little free memory; else it cannot be used at all."""
    message: str


@dataclass(frozen=True, slots=True)
class PodStart:
    """What a serving pod does that runs and is not ready, in the words of its `/readyz`."""

    phase: Literal["Loading", "WarmingUp"]
    since: datetime | None
    problem: str = ""
    """Why its warm-up fails each time; empty: it does not, or was not tried often enough."""


@dataclass(frozen=True, slots=True)
class PodState:
    """A serving pod. IPs stay out, and the name is none for texts: it is generated.

    `waiting` is the reason of a waiting container (CrashLoopBackOff, ErrImagePull ...) with
    `waiting_message`; `last_end` is its previous termination as one sentence; `unschedulable` is
    the scheduler's message.
    """

    serving_hash: str
    phase: str
    ready: bool
    container: str = ""
    waiting: str = ""
    waiting_message: str = ""
    last_end: str = ""
    restarts: int = 0
    unschedulable: str = ""
    volume: VolumeTrouble | None = None
    """Why its volumes are not there; None: unknown, or they are."""
    terminating: bool = False
    damage: PodDamage | None = None
    """A container that does not run now ended because the engine is damaged."""
    gpu: GpuFault | None = None
    """A container that does not run now ended for want of a GPU, or of memory on it."""
    name: str = ""
    """Only to delete it by."""
    template: str = ""
    """The hash of its template, as a refusal of its Deployment names it."""
    start: PodStart | None = None
    """None: it is ready, or its server does not run."""
