"""From caches to a `Snapshot`. No request is sent: `PodDiagnostics` has read what must be read."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from mm_api import labels
from mm_api.conditions import Reason
from mm_api.documents.router_state import CanaryEvidence
from mm_api.documents.server_state import ServerState
from mm_api.quoted_text import steady
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator import names
from mm_operator.cluster.cache import Cache, Cached
from mm_operator.cluster.claims import ClaimModes
from mm_operator.cluster.deployments import (
    claim_state,
    config_state,
    deployment_state,
    group_state,
    with_pods,
)
from mm_operator.cluster.models import ModelCache, ModelRecord
from mm_operator.cluster.nodes import NodeCache
from mm_operator.cluster.pod_diagnostics import PodDiagnostics
from mm_operator.cluster.pods import condition, moment, pod_end, pod_state, running, why_not_running
from mm_operator.cluster.resources import (
    CHILDREN,
    CLAIM,
    CONFIG,
    DEPLOYMENT,
    DEVICE_CHILDREN,
    GROUP,
    GROUP_CHILDREN,
    JOB,
    KEDA_CHILDREN,
    POD,
)
from mm_operator.errors import SpecError
from mm_operator.model import (
    DeploymentState,
    EngineState,
    JobPhase,
    JobState,
    Observed,
    PlanSettings,
    PodState,
    Ref,
    ScalingView,
    Snapshot,
    Turn,
)

_REMEMBERED_SPECS = 256
"""About 12 kB each, and 0.3 ms to make: those of the models that change at this time."""

_CHILD_KINDS = frozenset(
    resource.kind for resource in (*CHILDREN, *KEDA_CHILDREN, *GROUP_CHILDREN, *DEVICE_CHILDREN)
)


@dataclass(slots=True, eq=False)
class Observer:
    """Makes snapshots from what the caches hold."""

    models: ModelCache
    cache: Cache
    nodes: NodeCache
    diagnostics: PodDiagnostics
    claims: ClaimModes
    settings: PlanSettings
    claims_missing: Callable[[], str] = lambda: ""
    groups_missing: Callable[[], str] = lambda: ""
    warm_up_problem: Callable[[str], str] = lambda _pod_uid: ""
    _leavers: dict[str, tuple[Hashable, frozenset[str]]] = field(default_factory=dict, init=False)

    def snapshot(
        self,
        record: ModelRecord,
        now: datetime,
        scaling: ScalingView | None = None,
        servers: tuple[ServerState, ...] = (),
        *,
        encoder_scaling: ScalingView | None = None,
        turn: Turn | None = None,
        evidence: tuple[CanaryEvidence, ...] = (),
    ) -> Snapshot:
        """Return one model with everything that decisions about it may depend on."""
        spec, error = parse_spec(record.spec)
        key = record.key
        return Snapshot(
            name=key.name,
            namespace=key.namespace,
            uid=record.uid,
            generation=record.generation,
            created=record.created,
            spec=spec,
            spec_error=error,
            status=record.status.read(),
            comparison=record.comparison,
            command=record.command,
            evidence=evidence,
            settings=self.settings,
            observed=self._observe(record),
            now=now,
            store_leavers=self._store_leavers(key.namespace),
            gpu_nodes=self.nodes.gpus(),
            claims_missing=self.claims_missing(),
            groups_missing=self.groups_missing(),
            claims_of_one_node={
                claim: self.models.claim_holders(key.namespace, claim)
                for claim in self.claims.for_one_node(record)
            },
            claims_of_one_pod=self.claims.for_one_pod(record),
            deleting=record.deleting,
            turn=turn,
            scaling=scaling,
            encoder_scaling=encoder_scaling,
            servers=servers,
        )

    def _store_leavers(self, namespace: str) -> frozenset[str]:
        """Return who owns the operator-made store and does not use it.

        Every owner is looked at once for each version of the claim and each model that left.
        """
        store = self.cache.find(CLAIM.kind, namespace, names.STORE_CLAIM)
        if store is None:
            return frozenset()
        known = self._leavers.get(namespace)
        state = (store.uid, store.version, self.models.leavings(namespace))
        if known is None or known[0] != state:
            known = state, self.models.store_leavers(namespace, store.owner_uids)
            self._leavers[namespace] = known
        return self.models.store_leavers(namespace, known[1])  # one may have come back since

    def jobs_of(self, record: ModelRecord) -> list[Cached]:
        """Return the Jobs a decision about a model looks at: its own and those it shares."""
        own = [item for item in self.cache.of_model(record.key) if item.kind == JOB.kind]
        shared = [
            item
            for engine in self._engines_of(record)
            for item in self.cache.of_engine(record.key.namespace, engine)
            if item.kind == JOB.kind
        ]
        return own + shared

    def _engines_of(self, record: ModelRecord) -> Iterator[str]:
        return (
            item.engine
            for item in self.cache.owned_by(record.uid)
            if item.kind == CONFIG.kind and item.engine
        )

    def _observe(self, record: ModelRecord) -> Observed:
        own: dict[str, list[Cached]] = {}
        for item in self.cache.of_model(record.key):
            own.setdefault(item.kind, []).append(item)
        deployments = {item.component: item for item in own.get(DEPLOYMENT.kind, ())}
        pods: dict[str, list[PodState]] = {}
        for item in own.get(POD.kind, ()):
            if not item.job:
                pods.setdefault(item.component, []).append(self._pod(item))
        store = self.cache.find(CLAIM.kind, record.key.namespace, names.STORE_CLAIM)
        serving = _deployment(deployments.get(labels.Component.SERVER))
        leaders = tuple(pods.get(labels.Component.SERVER, ()))
        for item in own.get(GROUP.kind, ()):
            found = item.once(group_state)
            serving = with_pods(found, leaders) if found else None
        return Observed(
            configs={item.name: item.once(config_state) for item in own.get(CONFIG.kind, ())},
            jobs={item.name: self._job(item) for item in own.get(JOB.kind, ())},
            engines=_Engines(self, record.key.namespace),
            owned_engines=frozenset(self._engines_of(record)),
            store=store.once(claim_state) if store else None,
            deployment=serving,
            pods=leaders,
            worker_pods=tuple(pods.get(labels.Component.WORKER, ())),
            canary=_deployment(deployments.get(labels.Component.CANARY)),
            canary_pods=tuple(pods.get(labels.Component.CANARY, ())),
            encoders=_deployment(deployments.get(labels.Component.ENCODER)),
            encoder_pods=tuple(pods.get(labels.Component.ENCODER, ())),
            refs=frozenset(
                Ref(item.kind, item.name)
                for items in own.values()
                for item in items
                if item.kind in _CHILD_KINDS
                # Labels alone are no proof: any client may write them.
                and record.uid in item.owner_uids
            ),
        )

    def pods_of(self, record: ModelRecord) -> list[Cached]:
        """Return the pods of a model's servers and encoders."""
        return [
            item
            for item in self.cache.of_model(record.key)
            if item.kind == POD.kind and not item.job
        ]

    def _pod(self, item: Cached) -> PodState:
        state, trouble = item.once(pod_state), self.diagnostics.volume(item.uid)
        if trouble is not None:
            return replace(state, volume=trouble)
        problem = self.warm_up_problem(item.uid)
        if problem and state.start and state.start.phase == "WarmingUp":
            return replace(state, start=replace(state.start, problem=steady(problem)))
        return state

    def _job(self, item: Cached) -> JobState:
        pods, said = tuple(self.cache.of_job(item.namespace, item.name)), self.diagnostics
        tails = {pod.uid: said.log_tails.get(pod.uid, ()) for pod in pods}
        progress = {pod.uid: said.progress.get(pod.uid, "") for pod in pods}
        blocked = said.blocked(item.uid)

        def make(job: Mapping[str, Any]) -> JobState:
            live = [pod.parse() for pod in pods]
            return job_state(job, live, log_tails=tails, progress=progress, blocked=blocked)

        versions = tuple((pod.uid, pod.version) for pod in pods)
        beside = (versions, *tails.values(), *progress.values(), blocked)
        state = item.once(make, beside, name="job_state")
        troubles = (said.volume(pod.uid) for pod in pods)
        trouble = next((one for one in troubles if one is not None), None)
        return state if trouble is None else replace(state, volume=trouble)

    def engine(self, namespace: str, name: str) -> EngineState:
        items = list(self.cache.of_engine(namespace, name))
        config = self.cache.find(CONFIG.kind, namespace, name)
        return EngineState(
            config=config.once(config_state) if config is not None else None,
            jobs=tuple(self._job(item) for item in items if item.kind == JOB.kind),
        )

    def engine_names(self, namespace: str) -> frozenset[str]:
        return frozenset(self.cache.engines(namespace))


def _deployment(item: Cached | None) -> DeploymentState | None:
    return item.once(deployment_state) if item else None


class _Engines(Mapping[str, EngineState]):
    """A live view: an engine is read when a decision needs it, not for each of 1,000 models."""

    def __init__(self, observer: Observer, namespace: str) -> None:
        self._observer = observer
        self._namespace = namespace

    def __getitem__(self, name: str) -> EngineState:
        state = self._observer.engine(self._namespace, name)
        if state.config is None and not state.jobs:
            raise KeyError(name)
        return state

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._observer.engine_names(self._namespace)))

    def __len__(self) -> int:
        return len(self._observer.engine_names(self._namespace))


@lru_cache(maxsize=_REMEMBERED_SPECS)
def parse_spec(text: bytes) -> tuple[MultimodalModelSpec | None, SpecError | None]:
    """Return the typed spec, or why it is none; exactly one of the two.

    The API server checks the same schema: this error means that the CRD of another version is
    installed, or that the object is older than a rule.
    """
    try:
        return MultimodalModelSpec.model_validate_json(text), None
    except ValidationError as error:
        first: Any = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(["spec", *(str(part) for part in first["loc"])])
        return None, SpecError(Reason.INVALID_SPEC, str(first["msg"]), path)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def job_state(
    job: Mapping[str, Any],
    pods: Sequence[Mapping[str, Any]],
    *,
    log_tails: Mapping[str, tuple[str, ...]],
    progress: Mapping[str, str] = MappingProxyType({}),
    blocked: str = "",
) -> JobState:
    """Return where a Job is.

    `log_tails`: pod uid -> last lines, for pods that left no message. `progress`: pod uid -> what a
    running build last said. `blocked`: why no pod could be created, as the Job controller's events
    say.
    """
    metadata, status = job["metadata"], job.get("status") or {}
    own = [pod for pod in pods if _belongs(pod, metadata["uid"])]
    ends = [pod_end(pod, log_tails.get(pod["metadata"]["uid"], ())) for pod in own]
    phase, closing = _phase(status, own)
    now = max((pod for pod in own if running(pod)[1]), key=_created, default=None)
    waiting = next(filter(None, map(why_not_running, own)), "") or (blocked if not own else "")
    return JobState(
        name=metadata["name"],
        uid=metadata["uid"],
        phase=phase,
        created=moment(metadata["creationTimestamp"]) or _EPOCH,
        finished_at=moment(closing.get("lastTransitionTime")),
        annotations=metadata.get("annotations") or {},
        labels=metadata.get("labels") or {},
        failed_pods=status.get("failed", 0),
        reason=closing.get("reason", "") if phase is JobPhase.FAILED else "",
        message=closing.get("message", "") if phase is JobPhase.FAILED else "",
        waiting=waiting if phase is JobPhase.PENDING else "",
        started_at=running(now)[1] if now else None,
        progress=progress.get(now["metadata"]["uid"], "") if now else "",
        ends=tuple(
            sorted(
                (end for end in ends if end is not None),
                key=lambda end: (end.finished_at or _EPOCH, end.pod),
            )
        ),
        deleting="deletionTimestamp" in metadata,
        namespace=metadata.get("namespace", ""),
        owner_uid=next((one["uid"] for one in metadata.get("ownerReferences") or ()), ""),
    )


def _created(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"].get("creationTimestamp", ""))


def _belongs(pod: Mapping[str, Any], uid: str) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == uid for owner in owners)


def _phase(
    status: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]
) -> tuple[JobPhase, Mapping[str, Any]]:
    for kind, phase in (("Complete", JobPhase.SUCCEEDED), ("Failed", JobPhase.FAILED)):
        found = condition(status, kind)
        if found.get("status") == "True":
            return phase, found
    phases = {(pod.get("status") or {}).get("phase") for pod in pods}
    # A pod that ended well is reported before its Job: the Job is as good as done, and not waiting.
    running = not phases.isdisjoint({"Running", "Succeeded"})
    return (JobPhase.RUNNING if running else JobPhase.PENDING), {}
