"""A model's canary as a part of its rollout: what is seen of it, and what the conditions say."""

from dataclasses import replace

from mm_api.conditions import Reason
from mm_api.sentences import joined
from mm_api.v1alpha1 import CanarySpec, MultimodalModelSpec, RolloutStatus
from mm_operator.model import CanaryDecision, PodState, RolloutDecision, Snapshot, Step
from mm_operator.plan.canary import CanarySeen, decide_canary, finish_canary, replayed
from mm_operator.plan.records import understood
from mm_operator.plan.rollout_progress import first_obstacle

_NO_ROUTER = (
    "strategy Canary needs the router, which this installation lacks: set router.enabled of the "
    "chart, or rollout.strategy to Rolling"
)


def recorded_rollout(snapshot: Snapshot) -> RolloutStatus | None:
    """Return what the status says of the last canary; None: nothing that is understood."""
    return understood(RolloutStatus, snapshot.status.get("rollout"))


def is_under_way(snapshot: Snapshot, revision: str) -> bool:
    before = recorded_rollout(snapshot)
    return before is not None and before.revision == revision


def was_sent_back(snapshot: Snapshot, revision: str) -> bool:
    before = recorded_rollout(snapshot)
    return before is not None and (before.revision, before.phase) == (revision, "RolledBack")


def unsupported(snapshot: Snapshot, canary: CanarySpec) -> str:
    """Return why there can be no canary; empty: there can."""
    if not snapshot.settings.routed:
        return _NO_ROUTER
    answers, reads = canary.analysis.answers, _modalities(snapshot)
    if answers is None or replayed(answers, reads):
        return ""
    return (
        f"rollout.canary.analysis.answers compares chats with {' and '.join(answers.modalities)}, "
        f"and the model reads {' and '.join(reads)} alone: change answers.modalities, or remove "
        "answers"
    )


def _modalities(snapshot: Snapshot) -> tuple[str, ...]:
    plan = snapshot.status.get("plan") or {}
    return tuple(plan.get("inputModalities") or ("text", "image"))


def canary_of(
    snapshot: Snapshot, spec: MultimodalModelSpec, canary: CanarySpec, revision: str, engine: str
) -> CanaryDecision | None:
    """Return what becomes of a revision that the stable pods do not have; None: `unsupported`.

    `engine`: the fingerprint of its own.
    """
    if unsupported(snapshot, canary):
        return None
    before, seen = recorded_rollout(snapshot), _seen(snapshot, spec, revision)
    if seen.failed is None and (difference := _difference(snapshot, revision, engine)):
        seen = replace(seen, failed=(Reason.EVALUATION_FAILED, difference))
    return decide_canary(canary, spec.rollout.progress_deadline, before, seen)


def finished_canary(
    snapshot: Snapshot, spec: MultimodalModelSpec, revision: str, *, complete: bool
) -> CanaryDecision | None:
    if spec.rollout.canary is None:
        return None
    before, seen = recorded_rollout(snapshot), _seen(snapshot, spec, revision)
    return finish_canary(spec.rollout.canary, before, seen, complete=complete)


def beside_a_canary(
    followed: RolloutDecision, canary: CanaryDecision | None, problem: str
) -> RolloutDecision:
    """Return the rollout of the stable pods, which stay, with what is said of the canary."""
    if canary is None:
        step, reason, text = Step.FAILED, Reason.NOT_SUPPORTED, problem
    elif canary.status.phase == "RolledBack":
        status = canary.status
        step, reason = Step.FAILED, Reason.CANARY_ROLLED_BACK
        text = (
            f"the new revision was sent back in step {status.step} ({status.reason}): "
            f"{status.message}. The stable one answers; change the spec to try again"
        )
    else:
        status = canary.status
        step, reason = Step.RUNNING, Reason.CANARY_PROGRESSING
        text = f"step {status.step}, {status.weight} % of the chats"
        text = f"{text}: {status.message}" if status.message else text
    if not followed.complete:
        text = joined(text, f"of the stable revision: {followed.message}")
    return replace(followed, step=step, reason=reason, message=text, canary=canary)


def _seen(snapshot: Snapshot, spec: MultimodalModelSpec, revision: str) -> CanarySeen:
    pods = [pod for pod in snapshot.observed.canary_pods if pod.serving_hash == revision]
    live = [pod for pod in pods if not pod.terminating]
    deployment = snapshot.observed.canary
    of_it = deployment if deployment and deployment.serving_hash == revision else None
    obstacle = first_obstacle(of_it, snapshot.observed.canary_pods) if of_it else None
    return CanarySeen(
        revision=revision,
        replicas=spec.replicas,
        available=sum(pod.ready for pod in live),
        now=snapshot.now,
        evidence=snapshot.evidence,
        failed=_failed(live),
        waits=obstacle[1] if obstacle else "",
        command=snapshot.command,
        modalities=_modalities(snapshot),
    )


def _difference(snapshot: Snapshot, revision: str, engine: str) -> str:
    """Return how a pod's answers differ from its checkpoint's; empty: not, as far as known."""
    if all(pod.serving_hash != revision for pod in snapshot.observed.canary_pods):
        return ""
    reports = (one.evaluation for one in snapshot.servers)
    problems = (one.problem for one in reports if one and one.fingerprint == engine)
    return next(filter(None, problems), None) or ""


def _failed(pods: list[PodState]) -> tuple[str, str] | None:
    """Return what condemns a revision at once: a container that ended, a wrong answer."""
    for pod in pods:
        if pod.start and pod.start.problem:
            return Reason.WARMUP_FAILED, f"the warm-up fails each time: {pod.start.problem}"
        if pod.restarts:
            ended = pod.last_end or "no reason given"
            return Reason.PODS_CRASHING, f"container {pod.container} was restarted: {ended}"
    return None
