"""When the engines of a store are swept, and which of them are in use.

In use is what a ConfigMap of an engine says in any namespace that shares the store: these exist
while a model wants or serves the engine, and go with the last one. They are counted again for each
sweep; what any namespace keeps is kept, and a damaged record of another one holds no
sweep up. Since when an engine is not in use is noted in the store itself, by the
sweep.
"""

from datetime import datetime, timedelta

from mm_api import labels
from mm_api.contract import PLAN_FILE
from mm_api.documents.build_plan import BuildPlan
from mm_api.v1alpha1 import MultimodalModelSpec, duration
from mm_operator import names
from mm_operator.model import GarbageCollection, JobPhase, JobState, Snapshot
from mm_operator.plan.jobs import attempt_of, latest
from mm_operator.plan.records import parse
from mm_operator.plan.store import identity_of, store_of

SWEEPS_IN_TIME = 4
"""Sweeps while an engine waits for its end: it goes at the latest a quarter of the time late."""

_SHORTEST, _LONGEST = timedelta(minutes=1), timedelta(days=1)

_NONE = GarbageCollection()


def store_key(snapshot: Snapshot, spec: MultimodalModelSpec) -> str:
    """Return the key of a model's store: equal for all who use it, in any namespace."""
    store = store_of(spec)
    known = identity_of(spec)
    return names.store_key(known or "/".join((snapshot.namespace, *store.key)), store.place)


def decide_garbage_collection(
    snapshot: Snapshot, spec: MultimodalModelSpec, key: str
) -> GarbageCollection:
    """Return the sweep of the model's store, if this model is the one that sweeps it."""
    wanted = spec.build.store.gc_after
    if wanted is None or not _sweeps(snapshot, key):
        return _NONE
    store = store_of(spec)
    known = identity_of(spec) and snapshot.settings.every_namespace
    own = store.operator_made and not store.bucket
    if not own and not known:
        return GarbageCollection(
            problem="spec.build.store.gcAfter has no effect: who else uses the store is known of "
            "the claim that the operator makes, and to an operator of all namespaces of a bucket "
            "whose endpoint is a full name"
        )
    period = min(max(duration.parse(wanted) / SWEEPS_IN_TIME, _SHORTEST), _LONGEST)
    job = latest(job for job in snapshot.observed.jobs.values() if labels.SWEEP in job.annotations)
    if job is None:
        return _start(snapshot, key, attempt=1)
    due = _due_in(job, period, snapshot.now)
    if due is None:
        return GarbageCollection(job=job.name)
    if due > 0:
        return GarbageCollection(job=job.name, due_in=due)
    return _start(snapshot, key, attempt=attempt_of(job) + 1)


def _sweeps(snapshot: Snapshot, key: str) -> bool:
    first = snapshot.observed.sweepers.get(key)
    return first is not None and first.uid == snapshot.uid


def _due_in(job: JobState, period: timedelta, now: datetime) -> float | None:
    """Return seconds until the next sweep; None while one is at work."""
    if job.phase in {JobPhase.PENDING, JobPhase.RUNNING}:
        return None
    ended = job.finished_at or job.created
    return max(0.0, (ended + period - now).total_seconds())


def _start(snapshot: Snapshot, key: str, *, attempt: int) -> GarbageCollection:
    engines = snapshot.observed.stored.get(key, ())
    plans: list[BuildPlan | None] = []
    for engine in engines:
        plan = parse(BuildPlan, engine.config.data.get(PLAN_FILE))
        if plan is None and engine.namespace == snapshot.namespace:
            return _NONE  # a damaged record: what it keeps is not known, so nothing is removed now
        plans.append(plan)
    kept = sorted({plan.fingerprint for plan in plans if plan})
    return GarbageCollection(
        job=names.sweep_job(snapshot.name, attempt), start=True, attempt=attempt, keep=tuple(kept)
    )
