"""When the claim that the operator makes is swept, and which of its engines are in use.

In use is what a ConfigMap of an engine says in the claim's namespace: these exist while a model
wants or serves the engine, and go with the last one. Since when an engine is not in use is noted
in the store itself, by the sweep.
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

SWEEPS_IN_TIME = 4
"""Sweeps while an engine waits for its end: it goes at the latest a quarter of the time late."""

_SHORTEST, _LONGEST = timedelta(minutes=1), timedelta(days=1)

_NONE = GarbageCollection()


def decide_garbage_collection(snapshot: Snapshot, spec: MultimodalModelSpec) -> GarbageCollection:
    """Return the sweep of the namespace's claim, if this model is the one that sweeps it."""
    wanted, claim = spec.build.store.gc_after, snapshot.observed.store
    first = min(claim.owners, default=None) if claim else None
    if wanted is None or first is None or first.uid != snapshot.uid:
        return _NONE
    period = min(max(duration.parse(wanted) / SWEEPS_IN_TIME, _SHORTEST), _LONGEST)
    job = latest(job for job in snapshot.observed.jobs.values() if labels.SWEEP in job.annotations)
    if job is None:
        return _start(snapshot, attempt=1)
    due = _due_in(job, period, snapshot.now)
    if due is None:
        return GarbageCollection(job=job.name)
    if due > 0:
        return GarbageCollection(job=job.name, due_in=due)
    return _start(snapshot, attempt=attempt_of(job) + 1)


def _due_in(job: JobState, period: timedelta, now: datetime) -> float | None:
    """Return seconds until the next sweep; None while one is at work."""
    if job.phase in {JobPhase.PENDING, JobPhase.RUNNING}:
        return None
    ended = job.finished_at or job.created
    return max(0.0, (ended + period - now).total_seconds())


def _start(snapshot: Snapshot, *, attempt: int) -> GarbageCollection:
    configs = [one.config for one in snapshot.observed.engines.values() if one.config]
    plans = [parse(BuildPlan, config.data.get(PLAN_FILE)) for config in configs]
    if None in plans:
        return _NONE  # a damaged record: what it keeps is not known, so nothing is removed now
    kept = sorted({plan.fingerprint for plan in plans if plan})
    return GarbageCollection(
        job=names.sweep_job(snapshot.name, attempt), start=True, attempt=attempt, keep=tuple(kept)
    )
