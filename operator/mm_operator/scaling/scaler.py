"""The tick: at each interval every model is evaluated and, in mode Enforce, scaled.

Runs on the leader only. One batch of queries for a hundred models.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Any

from mm_api import labels
from mm_api.v1alpha1 import AutoscalingSpec, MultimodalModelSpec
from mm_api.v1alpha1.vision import EncoderAutoscaling
from mm_operator import names
from mm_operator.autoscaling import take_turns
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.client import Client, WritesForbiddenError
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache, ModelRecord
from mm_operator.cluster.observe import parse_spec
from mm_operator.cluster.resources import DEPLOYMENT, MODEL, POD, SCALED_OBJECT
from mm_operator.errors import ClusterError
from mm_operator.model import ScalingView
from mm_operator.plan.engine.encoders import is_disaggregated
from mm_operator.scaling import engines
from mm_operator.scaling.answers import MetricsError
from mm_operator.scaling.conflicting_autoscalers import ConflictingAutoscalers
from mm_operator.scaling.engines import engine_problem
from mm_operator.scaling.evaluation import ENCODER_SLOTS, Evaluation, Slot, encoders_of
from mm_operator.scaling.model_autoscaler import ModelAutoscaler, Requested
from mm_operator.scaling.own_prometheus import OwnPrometheus
from mm_operator.scaling.pods import ScaledPod, scaled_pod
from mm_operator.scaling.prometheus import Prometheus
from mm_operator.scaling.reader import read_all
from mm_operator.scaling.view import ScalingAuthority
from mm_operator.status.series import Sample

_LOG = logging.getLogger(__name__)

SCALE_MANAGER = f"{labels.FIELD_MANAGER}-scale"
"""Field manager of the scale subresource: marks our own moves."""

_BATCH = 100
"""Models whose pods are in one query: 1,000 at once took a Prometheus of one core longer
than a request may take, and a slow batch costs only its own models a decision."""

_BATCHES_AT_ONCE = 2
"""Each is several queries already; more of them would only queue in Prometheus."""

_SETTLED_TICKS = 4
"""KEDA reads the recommendation through Prometheus, a scrape and a query later. Its object is made
when the last move is older than that, or it would undo the move with the number before it."""

_TURN = 50
"""Models between two turns of others on the event loop: 10 ms, to parse a spec or decide."""

_UNREADABLE = "the answers of Prometheus cannot be read: see the operator's log"


@dataclass(slots=True, eq=False, kw_only=True)
class Scaler:
    """Follows every model that has `spec.autoscaling`."""

    models: ModelCache
    cache: Cache
    client: Client
    prometheus: OwnPrometheus
    conflicts: ConflictingAutoscalers
    requeue: Callable[[Key], None]
    """Requests that a model be reconciled, which writes its status."""
    interval_seconds: float
    engine_problem: Callable[[AutoscalingSpec], str] = engine_problem
    """Returns why the engine of a spec cannot work; empty: it can."""
    clock: Callable[[], float] = time.time
    """Unix seconds."""
    report_seconds: Callable[[float], None] = lambda _seconds: None
    """Called with the seconds of each tick."""
    serves: Callable[[str], bool] = lambda _namespace: True
    """Returns whether the models of a namespace are this installation's."""
    held: Callable[[Key], int] = lambda _key: 0
    """Returns how many requests of a model wait in routers."""
    waited_seconds: Callable[[Key], float] = lambda _key: 0.0
    hold_problem: Callable[[str], str] | None = None
    """Returns why requests of a namespace would be lost without a replica; empty: they wait. None:
    there are no routers, and a model keeps one replica."""

    _autoscalers: dict[str, ModelAutoscaler] = field(default_factory=dict, init=False)
    _views: dict[str, ScalingView] = field(default_factory=dict, init=False)
    _specs: dict[str, tuple[int, MultimodalModelSpec | None]] = field(
        default_factory=dict, init=False
    )
    _pods: dict[str, tuple[int, ScaledPod]] = field(default_factory=dict, init=False)
    _slots: dict[Slot, set[Key]] | None = field(default=None, init=False)
    """Members of each slot; None until a tick has seen every model."""

    def view(self, uid: str) -> ScalingView | None:
        """Return what the status of a model should say; None before the first evaluation."""
        return self._views.get(uid)

    def autoscalers(self) -> Iterator[tuple[Key, int, ModelAutoscaler]]:
        """Yield each model that is followed, with its replicas, for metrics."""
        for key in self.models:
            record = self.models.find(key)
            if record is not None and (autoscaler := self._autoscalers.get(record.uid)):
                spec = self._spec(record)
                yield key, spec.replicas if spec else 0, autoscaler

    async def lead(self) -> None:
        """Tick until cancelled, with no memory of an earlier time as leader."""
        self._autoscalers.clear()
        self._views.clear()
        self._slots = None
        try:
            while True:
                started = time.monotonic()
                try:
                    await self.tick()
                except Exception:  # noqa: BLE001  # one tick's defect must not end the operator
                    _LOG.exception("a tick of the autoscaler failed; the next tick retries")
                took = time.monotonic() - started
                self.report_seconds(took)
                await asyncio.sleep(max(self.interval_seconds / 15, self.interval_seconds - took))
        finally:
            await self.prometheus.close()

    async def wake(self, keys: Sequence[Key]) -> None:
        """Decide at once on models in which requests wait, where there is no replica."""
        slots: set[Slot] = set()
        for key in keys:
            evaluation = self._evaluation_of(key, waking=True)
            if evaluation is None or evaluation.requested.replicas:
                continue
            if evaluation.slot:
                slots.add(evaluation.slot)
            else:
                await self._decide_all([evaluation])
        for slot in sorted(slots):
            members = self._members(slot)
            self._take_turns(slot, members)
            # What a replica that serves should do, a tick decides, with metrics.
            await self._decide_all(
                [one for one in members if one.turn or not one.requested.replicas]
            )

    async def tick(self) -> None:
        """Look at every model once."""
        evaluations = await self._evaluations()
        self._slots = self._members_of_slots(evaluations)
        known = {evaluation.record.key: evaluation for evaluation in evaluations}
        for slot, keys in self._slots.items():
            self._take_turns(slot, [known[key] for key in sorted(keys & known.keys())])
        self._forget({evaluation.uid for evaluation in evaluations})
        for evaluation in evaluations:
            if evaluation.autoscaler.changes_engine(evaluation.requested.spec.engine):
                self.conflicts.suspect(evaluation.record.key)  # what the former engine left behind
        await self.conflicts.refresh(evaluation.record.key for evaluation in evaluations)
        try:
            client = await self.prometheus.client()
        except MetricsError as error:
            for evaluation in evaluations:
                evaluation.problem = str(error)
            await self._decide_all(evaluations)
        else:
            await self._together(client, evaluations)

    async def _evaluations(self) -> list[Evaluation]:
        evaluations: list[Evaluation] = []
        for number, key in enumerate(self.models):
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
            try:
                # Encoders go first: what waits for them at this tick is no load of the model.
                both = self._encoders_of(key), self._evaluation_of(key)
            except Exception:  # noqa: BLE001  # one model's defect must not stop the others
                _LOG.exception("%s could not be observed; replicas are unchanged", key)
                continue
            evaluations += [one for one in both if one is not None]
        return evaluations

    def _evaluation_of(self, key: Key, *, waking: bool = False) -> Evaluation | None:
        """Return what there is to decide about a model, None when nothing is configured.

        Only a look at the routers wakes a model: at a tick what it counted may be answered by now.
        """
        record = self.models.find(key)
        if record is None or not record.scales or record.deleting:
            return None
        if not self.serves(key.namespace):
            return None
        spec = self._spec(record)
        if spec is None or spec.autoscaling is None or spec.autoscaling.mode == "Off":
            return None
        autoscaler = self._remembered(record.uid, record.status.read(), spec.replicas)
        if self._is_behind(record):
            return None
        mover = record.replicas_set_by.manager
        requested = Requested(
            spec.autoscaling,
            spec.replicas,
            spec.engine.max_batch_size,
            mover,
            held=self.held(key) if waking or spec.replicas else 0,
            hold_problem=self.hold_problem and self.hold_problem(key.namespace),
            slot=spec.runtime.gpu.slot or "",
            encoded_elsewhere=is_disaggregated(spec),
        )
        pods = self._pods_of(key)
        pod_names = autoscaler.names(pods, self.clock())
        return Evaluation(record, spec, requested, autoscaler, pods, pod_names)

    def _encoders_of(self, key: Key) -> Evaluation | None:
        """Return what there is to decide about a model's encoders, None when nothing is.

        A fixed number is looked at where replicas are scaled: too few explain a latency.
        """
        record = self.models.find(key)
        if record is None or record.deleting or not self.serves(key.namespace):
            return None
        spec = self._spec(record)
        if spec is None or not is_disaggregated(spec):
            return None
        wanted = spec.vision.autoscaling
        if wanted is None and (spec.autoscaling is None or spec.autoscaling.mode == "Off"):
            return None
        found = self.cache.find(DEPLOYMENT.kind, key.namespace, names.encoders(key.name))
        replicas = found.parse()["spec"].get("replicas", 1) if found else 0
        if not replicas:
            return None
        wanted = wanted or EncoderAutoscaling(min_replicas=replicas, max_replicas=replicas)
        status = record.status.read().get("encoders") or {}
        autoscaler = self._remembered(encoders_of(record.uid), status, replicas)
        follows = AutoscalingSpec(
            min_replicas=wanted.min_replicas,
            max_replicas=wanted.max_replicas,
            behavior=wanted.behavior,
        )
        requested = Requested(follows, replicas, ENCODER_SLOTS)
        pods = self._pods_of(key, labels.Component.ENCODER)
        servers = [pod.name for pod in self._pods_of(key)]
        pod_names = autoscaler.names(pods, self.clock())
        return Evaluation(record, spec, requested, autoscaler, pods, pod_names, servers=servers)

    def _remembered(self, uid: str, status: Mapping[str, Any], replicas: int) -> ModelAutoscaler:
        """Return the memory of a model or its encoders; `status`: what holds `scaling`."""
        if uid not in self._autoscalers:
            former = status.get("scaling") or {}
            self._autoscalers[uid] = ModelAutoscaler(former, self.clock(), replicas)
        return self._autoscalers[uid]

    def _is_behind(self, record: ModelRecord) -> bool:
        # The cache has not seen our own last move yet.
        autoscaler = self._autoscalers.get(record.uid)
        return autoscaler is not None and record.version < autoscaler.written_version

    def _members_of_slots(self, evaluations: Sequence[Evaluation]) -> dict[Slot, set[Key]]:
        found: dict[Slot, set[Key]] = defaultdict(set)
        for one in evaluations:
            if one.slot:
                found[one.slot].add(one.record.key)
        for slot, keys in (self._slots or {}).items():
            records = [record for key in keys if (record := self.models.find(key))]
            if behind := {one.key for one in records if self._is_behind(one)}:
                found[slot] |= behind
        return dict(found)

    def _members(self, slot: Slot) -> list[Evaluation]:
        """Return every model of a slot; none while it is not known what each of them has."""
        found = []
        for key in sorted((self._slots or {}).get(slot, ())):
            evaluation, record = self._evaluation_of(key, waking=True), self.models.find(key)
            if record is not None and self._is_behind(record):
                return []
            if evaluation is not None and evaluation.slot == slot:
                found.append(evaluation)
        return found

    def _take_turns(self, slot: Slot, evaluations: Sequence[Evaluation]) -> None:
        now = self.clock()
        members = [
            one.member(self.held(one.record.key), self.waited_seconds(one.record.key), now)
            for one in evaluations
        ]
        turns = take_turns(slot[1], members, now)
        for one in evaluations:
            one.turn = turns.get(one.record.key.name)

    async def _together(self, client: Prometheus, evaluations: Sequence[Evaluation]) -> None:
        """Read the metrics of models, batch by batch, and decide on each."""
        turns = asyncio.Semaphore(_BATCHES_AT_ONCE)

        async def one(batch: Sequence[Evaluation]) -> None:
            async with turns:
                try:
                    await self._read(client, batch)
                except Exception:  # noqa: BLE001  # one batch must not stop the others
                    _LOG.exception("an answer of Prometheus was not read; replicas are unchanged")
                    for evaluation in batch:
                        evaluation.problem = _UNREADABLE
            await self._decide_all(batch)

        async with asyncio.TaskGroup() as group:
            models = [list(both) for _, both in groupby(evaluations, lambda one: one.record.key)]
            for first in range(0, len(models), _BATCH):
                group.create_task(one(list(chain(*models[first : first + _BATCH]))))

    async def _read(self, client: Prometheus, evaluations: Sequence[Evaluation]) -> None:
        """Fill in what Prometheus knows, or why it does not."""
        metrics = {
            one.metric for evaluation in evaluations for one in evaluation.requested.spec.objectives
        }
        pods = [
            (evaluation.record.key.namespace, name)
            for evaluation in evaluations
            for name in (*evaluation.names, *(evaluation.servers or ()))
        ]
        encoders = any(evaluation.servers is not None for evaluation in evaluations)
        try:
            series = (
                await read_all(client, pods, sorted(metrics), encoders=encoders) if pods else {}
            )
        except MetricsError as error:
            for evaluation in evaluations:
                evaluation.problem = str(error)
        else:
            for evaluation in evaluations:
                evaluation.series = series

    async def _decide_all(self, evaluations: Sequence[Evaluation]) -> None:
        for number, evaluation in enumerate(evaluations):
            try:
                await self._decide(evaluation)
            except Exception:  # noqa: BLE001  # one model's defect must not stop the others
                _LOG.exception("%s got no decision; replicas are unchanged", evaluation.record.key)
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)

    async def _decide(self, evaluation: Evaluation) -> None:
        now, requested, autoscaler = self.clock(), evaluation.requested, evaluation.autoscaler
        encodes = evaluation.servers is not None
        encoders = self._autoscalers.get(encoders_of(evaluation.uid))
        if not encodes and autoscaler.others_moved(requested, now):
            self.conflicts.suspect(evaluation.record.key)
        decision = evaluation.turn or autoscaler.decide(
            requested,
            evaluation.objectives,
            pods=evaluation.pods,
            reading=evaluation.read(now),
            now=now,
            starved=encoders is not None and now < encoders.short_until,
        )
        autoscaler.decision = decision
        authority = ScalingAuthority() if encodes else self._authority(evaluation, now)
        free = not (authority.others or authority.problem)
        reason = f"{decision.reason}: {decision.message}"
        if encodes:  # the reconcile scales them
            autoscaler.moved(autoscaler.replicas, decision.replicas, reason, now)
        elif requested.spec.mode == "Enforce" and requested.spec.engine == "Builtin" and free:
            await self._move(evaluation, decision.replicas, reason)
        view = autoscaler.publish(requested, decision, authority, now)
        if view is not None:
            self._views[evaluation.uid] = view
            self.requeue(evaluation.record.key)

    async def _move(self, evaluation: Evaluation, replicas: int, reason: str) -> None:
        """Write the scale subresource; a model that changed meanwhile is looked at next tick."""
        before = evaluation.requested.replicas
        if replicas == before:
            return
        key = evaluation.record.key
        body = {
            "metadata": {"resourceVersion": str(evaluation.record.version)},
            "spec": {"replicas": replicas},
        }
        try:
            answer = await self.client.merge(
                MODEL, key.namespace, key.name, body, subresource="scale", manager=SCALE_MANAGER
            )
        except WritesForbiddenError:
            return  # another replica leads by now
        except ClusterError as error:
            _LOG.info("%s was not scaled to %d: %s", key, replicas, error)
            return
        evaluation.autoscaler.written_version = int(answer["metadata"]["resourceVersion"])
        evaluation.autoscaler.moved(before, replicas, reason, self.clock())

    def _authority(self, evaluation: Evaluation, now: float) -> ScalingAuthority:
        """Return who should move the replicas, and what stands against it."""
        spec = evaluation.requested.spec
        if problem := self.engine_problem(spec):
            return ScalingAuthority(problem=problem)
        others = self.conflicts.name(evaluation.record.key, spec.engine)
        keda_moves = spec.engine == "KEDA" and spec.mode == "Enforce" and not others
        return ScalingAuthority(
            others=others,
            trouble=self._trouble(evaluation, now) if keda_moves else "",
            by_keda=keda_moves and self._may_take_over(evaluation, now),
        )

    def _trouble(self, evaluation: Evaluation, now: float) -> str:
        key = evaluation.record.key
        found = self.cache.find(SCALED_OBJECT.kind, key.namespace, names.autoscaler(key.name))
        return engines.trouble(found.parse(), now) if found is not None else ""

    def _may_take_over(self, evaluation: Evaluation, now: float) -> bool:
        name = names.autoscaler(evaluation.record.key.name)
        if self.cache.find(SCALED_OBJECT.kind, evaluation.record.key.namespace, name) is not None:
            return True
        return evaluation.autoscaler.is_settled(now, _SETTLED_TICKS * self.interval_seconds)

    def _spec(self, record: ModelRecord) -> MultimodalModelSpec | None:
        held = self._specs.get(record.uid)
        if held is None or held[0] != record.generation:
            held = record.generation, parse_spec(record.spec)[0]
            self._specs[record.uid] = held
        return held[1]

    def _pods_of(self, key: Key, component: str = labels.Component.SERVER) -> list[ScaledPod]:
        found = []
        for item in self.cache.of_model(key):
            if item.kind != POD.kind or item.component != component:
                continue
            held = self._pods.get(item.uid)
            if held is None or held[0] != item.version:
                held = item.version, scaled_pod(item.parse())
                self._pods[item.uid] = held
            found.append(held[1])
        return found

    def _forget(self, followed: set[str]) -> None:
        """Drop what is remembered of models and pods that are gone or no longer scaled."""
        _keep(self._autoscalers, followed)
        _keep(self._views, followed)
        _keep(self._specs, followed)
        _keep(self._pods, self.cache.uids())


def _keep(memory: dict[str, Any], uids: set[str]) -> None:
    for uid in [known for known in memory if known not in uids]:
        del memory[uid]


def samples(scaler: Scaler) -> Iterator[Sample]:
    now = time.time()
    for key, replicas, autoscaler in scaler.autoscalers():
        yield from _of_one(key, replicas, autoscaler, now)


def _of_one(key: Key, replicas: int, autoscaler: ModelAutoscaler, now: float) -> Iterator[Sample]:
    model = (key.namespace, key.name)
    yield Sample("mm_autoscaling_applied_replicas", model, replicas)
    if (decision := autoscaler.decision) is not None:
        yield Sample("mm_autoscaling_desired_replicas", model, decision.replicas)
        available = float(decision.metrics_available)
        yield Sample("mm_autoscaling_metrics_available", model, available)
    if autoscaler.decided_at is not None:
        age = max(0.0, now - autoscaler.decided_at)
        yield Sample("mm_autoscaling_decision_age_seconds", model, age)
    for name, share in autoscaler.attainment.items():
        yield Sample("mm_autoscaling_slo_attainment", (*model, name), share)
    for phase, seconds in autoscaler.cold_starts.phases().items():
        yield Sample("mm_autoscaling_cold_start_seconds", (*model, phase), seconds)
    for (metric, label), count in autoscaler.counts.items():
        yield Sample(metric, (*model, label) if label else model, count)
