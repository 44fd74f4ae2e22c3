"""Every condition of a model from snapshot, plan and outcome, each by its own function."""

from mm_api.conditions import ConditionType, Reason
from mm_api.sentences import count, joined
from mm_operator.autoscaling.wording import replicas, verb
from mm_operator.model import Outcome, Plan, Snapshot, Step
from mm_operator.status.conditions import Condition, truth
from mm_operator.status.encoders import encoders_ready
from mm_operator.status.evaluation import evaluation_missing, evaluation_problem
from mm_operator.status.scaling import scales_to_zero, scaling_active, waits_for_slot
from mm_operator.status.servers import trouble

OBSTACLES = frozenset(
    {
        Reason.PODS_UNSCHEDULABLE,
        Reason.VOLUME_UNAVAILABLE,
        Reason.IMAGE_NOT_USABLE,
        Reason.IMAGE_PULL_FAILED,
        Reason.CREATE_CONTAINER_CONFIG_ERROR,
        Reason.FAILED_CREATE,
        Reason.WARMUP_FAILED,
        Reason.PODS_CRASHING,
        Reason.GPU_OUT_OF_MEMORY,
        Reason.GPU_UNUSABLE,
        Reason.QUOTA_EXCEEDED,
    }
)
"""Reasons for which waiting alone rarely helps."""


_ASLEEP = (
    "no request came for spec.autoscaling.scaleToZeroAfter: the router holds the next one, and a "
    "replica starts"
)


_WAITS = (
    "another model has the GPU of spec.runtime.gpu.slot: the router holds requests until it is "
    "this model's turn"
)


def conditions(snapshot: Snapshot, plan: Plan, outcome: Outcome) -> tuple[Condition, ...]:
    """Return every condition as it is now."""
    found = (
        _ready(snapshot, plan, outcome),
        _available(snapshot),
        _planned(plan),
        _engine_built(plan),
        _rolling_out(plan),
        scaling_active(snapshot),
        encoders_ready(snapshot, plan),
        _degraded(snapshot, plan, outcome),
    )
    return tuple(condition for condition in found if condition is not None)


def ready_pods(snapshot: Snapshot, plan: Plan) -> int:
    """Return the pods of the wanted revision that answer."""
    wanted = plan.rollout.serving_hash
    return sum(
        pod.ready and not pod.terminating and pod.serving_hash == wanted
        for pod in snapshot.observed.pods
    )


def _ready(snapshot: Snapshot, plan: Plan, outcome: Outcome) -> Condition:
    kind = ConditionType.READY
    if plan.problem:
        return Condition(kind, "False", plan.problem.reason, str(plan.problem))
    count = ready_pods(snapshot, plan)
    if plan.rollout.serving_hash and count:
        text = f"{replicas(count)} {verb(count, 'answer')}"
        answering = Condition(kind, "True", Reason.REPLICAS_AVAILABLE, text)
        return _unevaluated(snapshot, plan) or answering
    refused = next((one for one in outcome.errors if one.stage == "apply"), None)
    if refused:  # what the stages are about to do is not done
        return Condition(kind, "False", refused.reason, refused.message)
    if snapshot.spec is not None and snapshot.spec.replicas == 0 and plan.rollout.serving_hash:
        # As a Deployment without replicas is available: nothing that is wanted is missing.
        settled = plan.rollout.complete and not plan.rollout.held
        return Condition(kind, truth(settled), *_why_none(snapshot))
    if plan.rollout.serving_hash and (problem := evaluation_problem(snapshot, plan)):
        return Condition(kind, "False", Reason.EVALUATION_FAILED, problem)
    return _former(snapshot, plan) or _waking(snapshot, plan) or _awaited(plan)


def _why_none(snapshot: Snapshot) -> tuple[Reason, str]:
    """Return reason and message of a model without a replica."""
    if not scales_to_zero(snapshot):
        return Reason.NO_REPLICAS, "spec.replicas is 0"
    if waits_for_slot(snapshot):
        return Reason.WAITING_FOR_SLOT, _WAITS
    return Reason.SCALED_TO_ZERO, _ASLEEP


def _waking(snapshot: Snapshot, plan: Plan) -> Condition | None:
    """Return that requests wait for a replica that starts; an obstacle to it is no waking."""
    deployment, kind = snapshot.observed.deployment, ConditionType.READY
    before = {one["type"]: one for one in snapshot.status.get("conditions", ())}.get(kind, {})
    starts = plan.rollout.reason == Reason.PODS_STARTING and deployment and not deployment.stalled
    asleep = before.get("reason") in {Reason.SCALED_TO_ZERO, Reason.WAITING_FOR_SLOT}
    if not (starts and scales_to_zero(snapshot) and asleep):
        return None
    text = joined("the router holds requests until a replica answers", plan.rollout.message)
    return Condition(kind, before["status"], Reason.SCALED_TO_ZERO, text)


def _awaited(plan: Plan) -> Condition:
    """Return the stage that keeps pods from answering."""
    stage = next(
        (
            decision
            for decision in (plan.inspect, plan.build)
            if decision.step is not Step.DONE and not plan.rollout.serving_hash
        ),
        plan.rollout,
    )
    reason = Reason.PODS_STARTING if stage.step is Step.DONE else stage.reason
    return Condition(ConditionType.READY, "False", reason, stage.message)


def _former(snapshot: Snapshot, plan: Plan) -> Condition | None:
    """Return that pods of a former revision answer meanwhile; RollingOut says what is awaited.

    As a Deployment stays available: whether requests are answered is one question, whether the last
    change has arrived another one (docs/decisions/20261129-ready-while-pods-are-replaced.md).
    """
    deployment = snapshot.observed.deployment
    count = deployment.available if deployment else 0
    if not count or not plan.rollout.serving_hash:
        return None
    text = f"{replicas(count)} of the former revision {verb(count, 'answer')} meanwhile"
    return Condition(
        ConditionType.READY, "True", Reason.REPLICAS_AVAILABLE, f"{text}: {plan.rollout.message}"
    )


def _unevaluated(snapshot: Snapshot, plan: Plan) -> Condition | None:
    """Return why pods that answer are not enough, where the spec requires an evaluation."""
    if snapshot.spec is None or not snapshot.spec.rollout.require_evaluation:
        return None
    if problem := evaluation_problem(snapshot, plan):
        return Condition(ConditionType.READY, "False", Reason.EVALUATION_FAILED, problem)
    missing = evaluation_missing(snapshot, plan)
    if missing is None:
        return None
    return Condition(ConditionType.READY, "False", Reason.EVALUATION_MISSING, missing)


def _available(snapshot: Snapshot) -> Condition:
    deployment = snapshot.observed.deployment
    count = deployment.available if deployment else 0
    if count:
        message = f"{replicas(count)} of any revision {verb(count, 'answer')}"
        return Condition(ConditionType.AVAILABLE, "True", Reason.REPLICAS_AVAILABLE, message)
    return Condition(ConditionType.AVAILABLE, "False", Reason.NO_REPLICAS, "no replica answers")


def _planned(plan: Plan) -> Condition:
    kind = ConditionType.PLANNED
    if plan.problem:
        return Condition(kind, "False", plan.problem.reason, str(plan.problem))
    if plan.build_plan is None or plan.inspect.step is not Step.DONE:
        return Condition(kind, "False", plan.inspect.reason, plan.inspect.message)
    facts, limits = plan.build_plan.facts, plan.build_plan.engine.limits
    most = limits.max_images_per_request
    images = (
        f"; up to {count(most, 'image')} of {facts.vision.features_per_image} tokens in a request"
        if facts.vision and limits.max_images_per_request
        else ""
    )
    return Condition(
        kind,
        "True",
        Reason.PLAN_COMPLETE,
        f"{facts.family} with {facts.parameters:,} weights in {plan.build_plan.engine.dtype}; "
        f"prompts of {limits.max_input_len} and sequences of {limits.max_seq_len} tokens, "
        f"{limits.max_batch_size} requests at a time{images}{_on_gpus(plan)}",
    )


def _on_gpus(plan: Plan) -> str:
    """Return where the model goes and how full that gets; empty where no GPU is used."""
    engine = plan.engine
    if engine is None or engine.gpu is None:
        return ""
    return f"; on {len(engine.memory.per_gpu)} x {engine.gpu.product}: {engine.fit.message}"


def _engine_built(plan: Plan) -> Condition:
    build = plan.build
    done = build.step is Step.DONE
    return Condition(ConditionType.ENGINE_BUILT, truth(done), build.reason, build.message)


def _rolling_out(plan: Plan) -> Condition:
    rollout = plan.rollout
    moving = rollout.step in {Step.START, Step.RUNNING}
    return Condition(ConditionType.ROLLING_OUT, truth(moving), rollout.reason, rollout.message)


def _degraded(snapshot: Snapshot, plan: Plan, outcome: Outcome) -> Condition:
    kind = ConditionType.DEGRADED
    if plan.problem:
        return Condition(kind, "True", plan.problem.reason, str(plan.problem))
    if outcome.errors:
        text = joined(*sorted(error.message for error in outcome.errors))
        return Condition(kind, "True", outcome.errors[0].reason, text)
    if found := _stopped(plan) or plan.inspect.cause or plan.build.cause:
        return Condition(kind, "True", *found)
    if problem := evaluation_problem(snapshot, plan):
        return Condition(kind, "True", Reason.EVALUATION_FAILED, problem)
    if found := trouble(snapshot, plan):
        return Condition(kind, "True", *found)
    expected = Condition(kind, "False", Reason.AS_EXPECTED, "nothing needs a person")
    return _stuck_encoders(snapshot, plan) or expected


def _stopped(plan: Plan) -> tuple[str, str] | None:
    """Return reason and message of the first stage that continues by a person only."""
    for decision in (plan.inspect, plan.build, plan.rollout):
        if decision.step is Step.FAILED or decision.reason in OBSTACLES:
            return decision.reason, decision.message
    return None


def _stuck_encoders(snapshot: Snapshot, plan: Plan) -> Condition | None:
    encoders = encoders_ready(snapshot, plan)
    if encoders is None or encoders.reason not in OBSTACLES:
        return None
    return Condition(ConditionType.DEGRADED, "True", encoders.reason, encoders.message)
