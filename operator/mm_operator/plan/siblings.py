"""Other namespaces whose models keep the same engine in the same store: their build is waited for.

Only of namespaces that the administrator put into one group with the model's: a store is what a
spec says it is, which proves nothing. What a sibling recorded never counts as a result. Its build
is waited for as long as one of this model's own may take; then, or once it has ended, a Job of this
model finds the engine in the store, verifies every file, and says so, or builds it.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from mm_api.conditions import Reason
from mm_operator.model import BuildDecision, Builder, JobPhase, Sibling, Snapshot, Step
from mm_operator.plan.jobs import latest

LOOK_SECONDS = 30.0
"""The safety net: what happens to a sibling wakes those that wait for it."""

_AT_WORK = frozenset({JobPhase.PENDING, JobPhase.RUNNING})


def siblings_of(snapshot: Snapshot, shared: str) -> tuple[Sibling, ...]:
    """Return what the namespaces that share with the model's have of an engine.

    `shared`: key of the engine in its store; empty when it is not shared.
    """
    partners = snapshot.settings.partners(snapshot.namespace)
    if not shared or not partners:
        return ()
    known = snapshot.observed.siblings.get(shared, ())
    return tuple(one for one in known if one.namespace in partners)


def with_siblings(
    decision: BuildDecision, siblings: Iterable[Sibling], *, now: datetime, patience: timedelta
) -> BuildDecision:
    """Return the decision of a model that would start a build, in view of other namespaces.

    `siblings`: see `siblings_of`. `patience`: how long a build of this model may take.
    """
    if decision.step is not Step.START:
        return decision
    busy = next((one for one in siblings if is_building(one, now=now, patience=patience)), None)
    if busy is None:
        return decision
    job = latest(busy.jobs)
    builder = (job.builder if job else None) or _owner(busy)
    return replace(
        decision,
        step=Step.WAITING,
        reason=Reason.WAITING_FOR_BUILD,
        message=f"model {builder} builds this engine in the same store",
        phase="Waiting",
        job="",
        builder=builder,
        retry_in=LOOK_SECONDS,
    )


def is_building(sibling: Sibling, *, now: datetime, patience: timedelta) -> bool:
    """Return whether the last build Job of a sibling is worth waiting for.

    Its age is that of the object, which the API server sets.
    """
    job = latest(sibling.jobs)
    if job is None or job.phase not in _AT_WORK or job.deleting:
        return False
    return now - job.created < patience


def _owner(sibling: Sibling) -> Builder:
    owners = sibling.config.owners
    name, uid = (owners[0].name, owners[0].uid) if owners else (sibling.config.name, "")
    return Builder(sibling.namespace, name, uid)
