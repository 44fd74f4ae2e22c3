"""The vision encoders in pods of their own: their condition, and how many there are."""

from typing import Any

from mm_api.conditions import ConditionType, Reason
from mm_api.sentences import count, joined
from mm_operator.autoscaling.wording import verb
from mm_operator.digests import plain
from mm_operator.model import Plan, Snapshot
from mm_operator.plan.engine.encoders import is_disaggregated
from mm_operator.plan.rollout_progress import first_obstacle, starts_in_progress
from mm_operator.status.conditions import Condition

MEANWHILE = "the language model's pods encode the images that no encoder answers"


def encoders_ready(snapshot: Snapshot, plan: Plan) -> Condition | None:
    """Return the condition EncodersReady; None where encoders have no pods of their own."""
    kind, deployment, spec = ConditionType.ENCODERS_READY, snapshot.observed.encoders, snapshot.spec
    wanted = spec is not None and is_disaggregated(spec)
    if deployment is None:
        if not wanted or plan.problem:
            return None
        text = "the encoders' pods are created with the language model's"
        if plan.rollout.held:
            text = f"their Deployment was deleted; the next revision creates it; {MEANWHILE}"
        return Condition(kind, "False", Reason.PODS_STARTING, text)
    if not wanted and not plan.rollout.held:
        return None  # they are about to go
    number = deployment.wanted
    of = f"{deployment.available} of {count(number, 'encoder')}"
    settled = deployment.observed_generation >= deployment.generation
    counts = {number, deployment.updated, deployment.available, deployment.replicas}
    if settled and len(counts) == 1:
        text = f"{of} {verb(number, 'answer')}"
        text = text if number else "none is wanted while the model has no replica"
        return Condition(kind, "True", Reason.REPLICAS_AVAILABLE, text)
    pods = snapshot.observed.encoder_pods
    if obstacle := first_obstacle(deployment, pods):
        reason, message = obstacle
        return Condition(kind, "False", reason, joined(message, MEANWHILE))
    reported = (f"{of} of the revision answer", starts_in_progress(deployment, pods), MEANWHILE)
    return Condition(kind, "False", Reason.PODS_STARTING, joined(*reported))


def encoders_summary(snapshot: Snapshot) -> dict[str, Any]:
    """Return what goes into `status` beside the condition: at most the key `encoders`."""
    deployment, spec, view = snapshot.observed.encoders, snapshot.spec, snapshot.encoder_scaling
    if deployment is None:
        return {}
    found: dict[str, Any] = {"replicas": deployment.replicas, "readyReplicas": deployment.ready}
    if spec is not None and (spec.vision.autoscaling or spec.autoscaling):
        # A new leader looks within a tick; until then the last status is kept.
        former = (snapshot.status.get("encoders") or {}).get("scaling")
        scaling = plain(view.status) if view else former
        found |= {"scaling": scaling} if scaling else {}
    return {"encoders": found}
