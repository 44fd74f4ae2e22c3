"""The one loop: observe, plan, build the children, apply, prune, report.

Everything that knows a stage lives in that stage's module; here is only the order, and that the
status is written once, whatever the stages before it met. A round that changed children is followed
by another one at once, and leaves the status to it.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mm_api.conditions import Reason
from mm_api.documents.router_state import CanaryEvidence
from mm_api.documents.server_state import ServerState
from mm_operator.children.all import build, unwanted
from mm_operator.cluster.apply import Applier, OutdatedError, prune
from mm_operator.cluster.claims import ClaimModes
from mm_operator.cluster.client import Client
from mm_operator.cluster.events import EventPoster
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache, ModelRecord
from mm_operator.cluster.namespaces import (
    RECHECK_SECONDS,
    ServedNamespaces,
)
from mm_operator.cluster.observe import Observer
from mm_operator.cluster.pod_diagnostics import PodDiagnostics
from mm_operator.cluster.refusals import stage_error
from mm_operator.cluster.resources import MODEL
from mm_operator.cluster.rollout_turns import RolloutTurns
from mm_operator.control.controller import RetryLaterError
from mm_operator.errors import ClusterError
from mm_operator.model import (
    Outcome,
    Plan,
    RolloutTurn,
    ScalingView,
    Snapshot,
    StageError,
)
from mm_operator.plan import decide
from mm_operator.plan.rollout_turns import rollout_turn_of
from mm_operator.scaling.evaluation import encoders_of
from mm_operator.status.derive import derive

_LOG = logging.getLogger(__name__)

_SOON_SECONDS = 0.05
"""Long enough that the events of what was just written come into the same next round; short beside
the second that the operator may add to the entire way from apply to Ready."""


_ENABLED_SECONDS = 2.0
"""Namespaces are not watched: how long one may have its label unnoticed."""


_NAME_TAKEN_SECONDS = 15.0
"""An object that is not ours is not watched: how long its name may be free unnoticed."""


@dataclass(slots=True, eq=False, kw_only=True)
class Reconciler:
    """Brings the children and the status of one model to what its spec says."""

    client: Client
    models: ModelCache
    observer: Observer
    diagnostics: PodDiagnostics
    claims: ClaimModes
    namespaces: ServedNamespaces
    turns: RolloutTurns
    applier: Applier
    clock: Callable[[], datetime]
    on_error: Callable[[str], None]
    events: EventPoster
    scaling: Callable[[str], ScalingView | None] = lambda _uid: None
    servers: Callable[[Key], tuple[ServerState, ...]] = lambda _key: ()
    evidence: Callable[[Key], tuple[CanaryEvidence, ...]] = lambda _key: ()
    on_status: Callable[[Mapping[str, Any], Mapping[str, Any]], None]
    _unreported: set[Key] = field(default_factory=set, init=False)
    _askers: dict[str, Key] = field(default_factory=dict, init=False)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one model; return seconds until the next time, None for events only.

        Raises RetryLaterError where the API server refused something.
        """
        try:
            return await self._reconcile_admitted(key)
        except Exception:
            self.turns.missed(key)
            raise

    async def _reconcile_admitted(self, key: Key) -> float | None:
        try:
            if key in self.models and not await self.namespaces.admits(key.namespace):
                self.turns.note(key, RolloutTurn())
                return RECHECK_SECONDS
        except ClusterError as error:
            await self._reconcile(key, (stage_error("apply", error),))
            return self._looks_again_in(key)
        self._askers.pop(key.namespace, None)
        return await self._reconcile(key, ())

    def _looks_again_in(self, key: Key) -> float:
        """Return when a model of a namespace without the label is tried again: the first one soon.

        The Lease that it writes then wakes the others.
        """
        first = self._askers.setdefault(key.namespace, key)
        if first not in self.models:
            first = self._askers[key.namespace] = key
        return _ENABLED_SECONDS if first == key else RECHECK_SECONDS

    async def _reconcile(self, key: Key, denied: tuple[StageError, ...]) -> float | None:
        """Reconcile one model of a namespace of ours; `denied`: only its status may be written."""
        requeue_after = await self._gather(key)
        record = self.models.find(key)
        if record is None or record.deleting:
            self._unreported.discard(key)
            self.turns.note(key, RolloutTurn())
            return None  # the garbage collector deletes what it owned
        now = self.clock()
        snapshot = self.observer.snapshot(
            record,
            now,
            self.scaling(record.uid),
            self.servers(key),
            encoder_scaling=self.scaling(encoders_of(record.uid)),
            turn=self.turns.turn(key),
            evidence=self.evidence(key),
        )
        plan = decide(snapshot)
        self.turns.note(key, rollout_turn_of(snapshot, plan.rollout))
        try:
            outcome = await self._act(record, snapshot, plan, denied)
        except OutdatedError:
            return _SOON_SECONDS
        if outcome is None:
            return None
        if self._comes_again(key, outcome):
            return _SOON_SECONDS
        problems = [*outcome.errors, *await self._report(record, snapshot, plan, outcome)]
        for problem in problems:
            self.on_error(problem.stage)
        serious = (problem for problem in problems if problem.reason != Reason.NAME_TAKEN)
        if not denied and (first := next(serious, None)):
            raise RetryLaterError(first.message)
        soon = _SOON_SECONDS if _wrote(outcome) else None
        known = (soon, plan.recheck_after, requeue_after)
        waits = [wait for wait in known if wait is not None]
        return _NAME_TAKEN_SECONDS if problems else min(waits, default=None)

    async def _gather(self, key: Key) -> float | None:
        """Read what a decision needs beside the caches; afterwards nothing is awaited until it."""
        record = self.models.find(key)
        if record:
            await self.claims.gather(record)
        jobs = self.observer.jobs_of(record) if record else ()
        pods = self.observer.pods_of(record) if record else ()
        return await self.diagnostics.gather(jobs, pods, self.clock())

    def _comes_again(self, key: Key, outcome: Outcome) -> bool:
        """Return whether the status can wait for the next round, which sees what this one wrote.

        Only one round in a row is left out, so that a model whose children keep changing still
        reports where it stands.
        """
        if not _wrote(outcome) or outcome.errors or key in self._unreported:
            self._unreported.discard(key)
            return False
        self._unreported.add(key)
        return True

    async def _act(
        self, record: ModelRecord, snapshot: Snapshot, plan: Plan, denied: tuple[StageError, ...]
    ) -> Outcome | None:
        """Apply and prune; None when the model turned out to be gone."""
        if plan.frozen or denied:
            return Outcome(errors=denied)
        documents = build(snapshot, plan)
        prepared = self.applier.prepare(documents)
        if self.applier.would_make_again(prepared) and not await self._exists(record):
            return None
        done = await self.applier.apply(prepared, record.key)
        if done.errors:
            return done.outcome()
        deleted, errors = await prune(
            self.client, self.applier.cache, record.key, unwanted(snapshot, plan, documents)
        )
        return done.outcome(deleted=deleted, errors=errors)

    async def _exists(self, record: ModelRecord) -> bool:
        """Query the API server before a deleted child is created again.

        When a model is deleted, the garbage collector's deletes may arrive before the model's own:
        a child made then would be deleted and made again until kopf reports the model.
        """
        live = await self.client.get(MODEL, record.key.namespace, record.key.name)
        if live is not None and live["metadata"]["uid"] == record.uid:
            return "deletionTimestamp" not in live["metadata"]
        self.models.remove(record.key, record.uid)
        return False

    async def _report(
        self, record: ModelRecord, snapshot: Snapshot, plan: Plan, outcome: Outcome
    ) -> list[StageError]:
        """Write the status and post the transitions; return what was refused."""
        status = derive(snapshot, plan, outcome)
        try:
            written = await write_status(self.client, self.models, record, snapshot.status, status)
        except ClusterError as error:
            if error.status in {404, 409}:  # deleted, or another one of this name, since observed
                _LOG.info("the status belongs to a model that is gone: %s", error)
                return []
            return [stage_error("status", error)]
        if written:
            self.events.add(record, snapshot.status, status)
            self.on_status(snapshot.status, status)
        return []


def _wrote(outcome: Outcome) -> bool:
    return bool(outcome.changed or outcome.deleted)


def merge_patch(old: Any, new: Any) -> Any:
    """Return the JSON merge patch (RFC 7396) from old to new; lists are replaced entirely."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return new
    patch = {name: None for name in old if name not in new}
    for name, value in new.items():
        if name not in old:
            patch[name] = value
        elif old[name] != value:
            patch[name] = merge_patch(old[name], value)
    return patch


async def write_status(
    client: Client,
    models: ModelCache,
    record: ModelRecord,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
) -> bool:
    """Write a status and return whether a write was needed; ClusterError: refused (404, 409: gone).

    The patch carries the uid: a model that was deleted and created again keeps its own status.
    """
    patch = merge_patch(old, new)
    if not patch:
        return False
    body = {"metadata": {"uid": record.uid}, "status": patch}
    key = record.key
    answer = await client.merge(MODEL, key.namespace, key.name, body, subresource="status")
    models.put(answer, own=True)
    return True
