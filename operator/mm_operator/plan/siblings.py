"""Other namespaces whose models keep the same engine in the same store: their build is ours.

What they have built is taken over without a Job. While they build, this model waits; when their
build goes away with its last model, ours starts and goes on after the steps that the store keeps.
"""

from collections.abc import Iterable
from dataclasses import replace

from mm_api.conditions import Reason
from mm_operator.model import BuildDecision, Builder, ConfigState, JobPhase, Sibling, Step
from mm_operator.plan.damage import built_at, found_at
from mm_operator.plan.jobs import latest
from mm_operator.plan.records import RESULT_KEY, read_builder, successful

LOOK_SECONDS = 30.0
"""The safety net: what happens to a sibling wakes those that wait for it."""

_AT_WORK = frozenset({JobPhase.PENDING, JobPhase.RUNNING})


def with_siblings(
    decision: BuildDecision, siblings: Iterable[Sibling], fingerprint: str
) -> BuildDecision:
    """Return the decision of a model that would start a build, in view of other namespaces."""
    if decision.step is not Step.START:
        return decision
    known = tuple(siblings)
    for one in known:
        result = successful(one.config.data.get(RESULT_KEY), fingerprint)
        if result and _newer(one.config, decision):
            return BuildDecision(
                Step.DONE,
                Reason.BUILD_SUCCEEDED,
                f"the engine of namespace {one.namespace} in the same store is used",
                result=result,
                record=result,
                phase="Succeeded",
                builder=read_builder(one.config) or _owner(one),
                built_at=built_at(one.config),
                damage=decision.damage,
            )
    busy = next((one for one in known if at_work(one)), None)
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


def at_work(sibling: Sibling) -> bool:
    """Return whether the last build Job of a sibling has not ended."""
    job = latest(sibling.jobs)
    return job is not None and job.phase in _AT_WORK and not job.deleting


def _newer(config: ConfigState, decision: BuildDecision) -> bool:
    """Return whether an engine was built after ours was found damaged: the store holds both."""
    damaged, built = found_at(decision.damage), built_at(config)
    return damaged is None or (built is not None and built > damaged)


def _owner(sibling: Sibling) -> Builder:
    owners = sibling.config.owners
    name, uid = (owners[0].name, owners[0].uid) if owners else (sibling.config.name, "")
    return Builder(sibling.namespace, name, uid)
