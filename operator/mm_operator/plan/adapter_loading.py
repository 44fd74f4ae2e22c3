"""Are the LoRA adapters of running pods in the store, and if not, what happens next?"""

from dataclasses import replace

from mm_api import labels
from mm_api.conditions import Reason
from mm_api.documents.adapter_room import LoraRoom
from mm_api.documents.model_facts import LoraFacts
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator import names
from mm_operator.addresses import adapter_addresses
from mm_operator.digests import digest
from mm_operator.model import (
    AdaptersDecision,
    BuildDecision,
    InspectDecision,
    JobPhase,
    JobState,
    RolloutDecision,
    Snapshot,
    Step,
)
from mm_operator.plan.adapter_changes import (
    Load,
    RollOut,
    decide_change,
    declared_room,
    room_of_pods,
)
from mm_operator.plan.engine_plan import WantedEngine
from mm_operator.plan.failures import adapters_failure
from mm_operator.plan.jobs import attempt_of, latest, pending
from mm_operator.plan.records import LOADED_KEY
from mm_operator.plan.retry import INSPECT


def decide_adapters(
    snapshot: Snapshot,
    spec: MultimodalModelSpec,
    wanted: WantedEngine | None,
    *,
    inspect: InspectDecision,
    build: BuildDecision,
    rollout: RolloutDecision,
) -> AdaptersDecision | None:
    """Return what becomes of the adapters; None: the model has no room for any."""
    if spec.engine.lora_room is None:
        return None
    config = snapshot.observed.configs.get(names.facts_config(snapshot.name))
    recorded = config.data.get(LOADED_KEY, "") if config else ""
    room = wanted.plan.serving_plan.lora_room if wanted else None
    if wanted is None or room is None or inspect.facts is None:
        text = "the adapters and their engine are planned first"
        return AdaptersDecision(Step.WAITING, Reason.WAITING_FOR_PLAN, text, loaded=recorded)
    if build.step is not Step.DONE:
        text = "the adapters are copied once the engine is built"
        return AdaptersDecision(Step.WAITING, Reason.WAITING_FOR_ENGINE, text, loaded=recorded)
    lora = inspect.facts.lora
    content = {
        "engine": wanted.config,
        "manifest": build.manifest_sha256,
        "adapters": {one.name: one.source_digest for one in lora.adapters} if lora else {},
        "sources": adapter_addresses(spec),
    }
    inputs = digest(content)
    held = _held(room, len(lora.adapters) if lora else 0)
    found = _decided(snapshot, inputs, recorded, held, needed=bool(lora or recorded))
    return _with_the_change(snapshot, spec, lora, (room, rollout), found)


def _with_the_change(
    snapshot: Snapshot,
    spec: MultimodalModelSpec,
    lora: LoraFacts | None,
    wanted: tuple[LoraRoom, RolloutDecision],
    found: AdaptersDecision,
) -> AdaptersDecision:
    """Return the decision with why pods are replaced, or have more room than is declared."""
    backend, old, (room, rollout) = spec.engine.backend, room_of_pods(snapshot), wanted
    beyond = decide_change(declared_room(spec, "declared"), lora, backend)
    change = decide_change(old, lora, backend)
    if isinstance(change, Load) and old is not None and old != room:
        change = RollOut(f"the room changes to {room.max_adapters} of rank {room.max_rank}")
    if snapshot.observed.deployment is None:
        change = Load()
    if isinstance(beyond, RollOut) and isinstance(change, Load):
        text = f"pods have more room than spec.engine.loraRoom declares: {beyond.reason}"
        found = replace(found, message=f"{found.message}; {text}")
        if not rollout.complete:
            change = beyond
    if isinstance(change, Load):
        return found
    reason = found.reason if found.step is Step.FAILED else Reason.ADAPTERS_ROLL_OUT
    text = f"every pod is replaced: {change.reason}; {found.message}"
    return replace(found, reason=reason, message=text)


def _held(room: LoraRoom, count: int) -> str:
    return (
        f"{count} of {room.max_adapters} adapters with ranks up to {room.max_rank} are in the "
        "store; pods serve each within seconds"
    )


def _decided(
    snapshot: Snapshot, inputs: str, recorded: str, held: str, *, needed: bool
) -> AdaptersDecision:
    """Return how far the Job is; without adapters, now and before, none is `needed`."""
    jobs = [
        job
        for job in snapshot.observed.jobs.values()
        if job.annotations.get(labels.INPUTS_HASH) == inputs
    ]
    job = latest(one for one in jobs if not one.deleting)
    if recorded == inputs or not needed:
        return AdaptersDecision(
            Step.DONE, Reason.ADAPTERS_LOADED, held, inputs_hash=inputs, loaded=recorded
        )
    if job is None:
        former = max((attempt_of(one) for one in jobs), default=0)
        return _started(snapshot, inputs, recorded, former + 1)
    if job.phase is JobPhase.SUCCEEDED or any(end.succeeded for end in job.ends):
        return AdaptersDecision(
            Step.DONE, Reason.ADAPTERS_LOADED, held, job.name, inputs, attempt_of(job), inputs
        )
    return _follow(snapshot, job, inputs, recorded)


def _follow(snapshot: Snapshot, job: JobState, inputs: str, recorded: str) -> AdaptersDecision:
    attempt = attempt_of(job)
    if job.phase is not JobPhase.FAILED:
        reason, message = Reason.ADAPTERS_LOADING, "the adapters are copied into the store"
        if job.phase is JobPhase.PENDING:
            found, waits = pending(job, Reason.ADAPTERS_LOADING)
            reason, message = Reason(found), f"the adapters are not copied yet: {waits}"
        return AdaptersDecision(Step.RUNNING, reason, message, job.name, inputs, attempt, recorded)
    left = INSPECT.seconds_left(
        attempt=attempt, finished_at=job.finished_at or job.created, now=snapshot.now
    )
    if left == 0:
        return _started(snapshot, inputs, recorded, attempt + 1)
    failure = adapters_failure(job)
    return AdaptersDecision(
        Step.FAILED,
        failure.reason,
        f"{failure.message}; the adapters of before are served, and it is retried automatically",
        job.name,
        inputs,
        attempt,
        recorded,
        left,
    )


def _started(snapshot: Snapshot, inputs: str, recorded: str, attempt: int) -> AdaptersDecision:
    return AdaptersDecision(
        Step.START,
        Reason.ADAPTERS_LOADING,
        "a Job that copies the adapters into the store is being created",
        names.adapters_job(snapshot.name, inputs, attempt),
        inputs,
        attempt,
        recorded,
    )
