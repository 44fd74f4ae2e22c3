"""What one reconcile saw: the model, its children, its neighbours, the nodes, the time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import Field

from mm_api.base import ApiModel
from mm_api.conditions import Reason
from mm_api.contract import VLLM_IMAGE
from mm_api.documents.router_state import CanaryEvidence
from mm_api.documents.server_state import ServerState
from mm_api.v1alpha1 import MultimodalModelSpec, ScalingStatus, UserIds
from mm_api.v1alpha1.network import NetworkSpec
from mm_operator.errors import SpecError
from mm_operator.model.objects import (
    ClaimState,
    ConfigState,
    DeploymentState,
    EngineState,
    JobState,
    PodState,
    Ref,
)


@dataclass(frozen=True, slots=True)
class RolloutTurn:
    """One model's part in rollouts that no user caused, as another runtime image: they go by turns.

    Whether its pods should change and do not yet (`waits`), or do in its turn (`rolls`).
    `failure`: what is wrong with its rollout. `use`: requests a second.
    """

    waits: bool = False
    rolls: bool = False
    failure: str = ""
    use: float = 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """What a model is granted; the failed rollout of `failing` (namespace/name) stops others."""

    granted: bool
    most: int
    failing: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """The children as the caches know them.

    `configs` and `jobs` (by name) carry the label `labels.MODEL` of this model. `engines` maps the
    name of an engine's ConfigMap to what the namespace shares about that engine; it holds every
    engine of the namespace, and may be a live view of a cache: read by name but for a sweep.
    `owned_engines` names those of them that this model owns. `refs` lists every existing object
    labelled with this model, for pruning.
    """

    configs: Mapping[str, ConfigState] = field(default_factory=dict)
    jobs: Mapping[str, JobState] = field(default_factory=dict)
    engines: Mapping[str, EngineState] = field(default_factory=dict)
    owned_engines: frozenset[str] = frozenset()
    store: ClaimState | None = None
    deployment: DeploymentState | None = None
    pods: tuple[PodState, ...] = ()
    worker_pods: tuple[PodState, ...] = ()
    """Pods of its groups that have no gateway."""
    encoders: DeploymentState | None = None
    encoder_pods: tuple[PodState, ...] = ()
    canary: DeploymentState | None = None
    canary_pods: tuple[PodState, ...] = ()
    refs: frozenset[Ref] = frozenset()

    @property
    def group_pods(self) -> tuple[PodState, ...]:
        """Return the pods that a replica needs, whether they answer or not."""
        return (*self.pods, *self.worker_pods)

    @property
    def every_pod(self) -> tuple[PodState, ...]:
        return (*self.group_pods, *self.canary_pods, *self.encoder_pods)


@dataclass(frozen=True, slots=True)
class KedaSettings:
    """How KEDA reads the operator's own Prometheus."""

    addresses: tuple[str, ...] = ()
    match_labels: tuple[tuple[str, str], ...] = ()
    insecure: bool = False
    authentication: str = ""
    """Name of a ClusterTriggerAuthentication; empty: the Prometheus requires none."""
    auth_modes: str = ""
    """What it holds, in KEDA's words: bearer, basic, tls; several joined by commas."""


class TracingSettings(ApiModel):
    """Where serving pods send traces by OTLP over HTTP; the share of requests that are traced."""

    endpoint: str = Field(pattern=r"^https?://[a-zA-Z0-9.\[\]:-]+(/[^\s?#@]*)?$")
    sampling_ratio: float = Field(default=1, ge=0, le=1)


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The operator's own settings that change what is planned."""

    runtime_image: str
    """Image of inspect, build and serving pods where a model names none. No default: a tag that
    does not exist would only show in pods that cannot start."""

    builder_version: str
    vllm_image: str = VLLM_IMAGE
    scrape_annotations: bool = True
    routed: bool = True
    """There is a router of this installation, which gives canaries their weight."""
    user_ids: UserIds = "Fixed"
    keda: KedaSettings | None = None
    """None: the operator is not configured for KEDA, and makes no objects for one."""
    network: NetworkSpec = field(default_factory=NetworkSpec)
    image_pull_secrets: tuple[str, ...] = ()
    tracing: TracingSettings | None = None

    def user_ids_of(self, spec: MultimodalModelSpec) -> UserIds:
        """Return who chooses the user, group and fsGroup of a model's Jobs and pods."""
        return spec.runtime.user_ids or self.user_ids

    def own_image_of(self, spec: MultimodalModelSpec) -> str:
        """Return the image of a model's containers that run programs of ours."""
        named = spec.runtime.image if spec.engine.traits.supervised else None
        return named or self.runtime_image

    def server_image_of(self, spec: MultimodalModelSpec) -> str:
        if spec.engine.traits.supervised:
            return self.own_image_of(spec)
        return spec.runtime.image or self.vllm_image

    def pull_secrets_of(self, spec: MultimodalModelSpec) -> list[str]:
        return list(spec.runtime.image_pull_secrets) or list(self.image_pull_secrets)


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node with GPUs, as its labels describe it; None: it has no such label."""

    name: str
    product: str
    memory_mib: int | None
    compute_capability: str | None
    count: int | None
    labels: Mapping[str, str]
    shares: int = 1
    """Pods that one GPU is offered to, by turns or under MPS."""


@dataclass(frozen=True, slots=True)
class ScalingView:
    """What the autoscaler last said about a model: its part of the status, and its condition."""

    status: ScalingStatus
    active: bool
    reason: Reason
    message: str
    by_keda: bool = False
    """KEDA should move the replicas now, by our ScaledObject."""


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
    store_leavers: frozenset[str] = frozenset()
    """Uids that own the operator-made store and use it no longer: a function of the claim and the
    specs alone, so that two reconciles never disagree about it."""
    gpu_nodes: tuple[GpuNode, ...] | None = None
    """Nodes with GPUs, by name; None: the operator may not read nodes."""
    claims_missing: str = ""
    """Why no claims for devices can be made here; empty: they can."""
    groups_missing: str = ""
    """Why no LeaderWorkerSets can be made here; empty: they can."""
    claims_of_one_node: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Claims of the user's that the model's Jobs attach and only one node may have -> the models
    whose serving pods attach them."""
    claims_of_one_pod: tuple[str, ...] = ()
    turn: Turn | None = None
    """What is granted to a rollout that the operator causes; None: every one begins at once."""
    comparison: str = ""
    """What `mmctl compare` has written beside the model, unread; empty: nothing."""
    command: str = ""
    """What `mmctl rollout` has written, unread; empty: nothing."""
    evidence: tuple[CanaryEvidence, ...] = ()
    """What each router has seen of a canary of this model."""
    deleting: bool = False
    servers: tuple[ServerState, ...] = ()
    """What servers said that the status depends on: trouble, comparisons with the checkpoint."""
    scaling: ScalingView | None = None
    """None while the autoscaler did not evaluate the model yet; the status then stays as it is."""
    encoder_scaling: ScalingView | None = None
    """The same of its encoders in pods of their own."""
