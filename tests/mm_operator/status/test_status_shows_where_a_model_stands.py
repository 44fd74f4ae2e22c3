"""The status of a model at the stages of its life, after errors included."""

from dataclasses import replace
from typing import Any

import pytest

from mm_api.v1alpha1 import MultimodalModelStatus
from mm_operator.errors import SpecError
from mm_operator.model import DeploymentState, Outcome, Plan, PodState, Snapshot, StageError, Step
from mm_operator.plan import decide
from mm_operator.status.derive import derive
from support.cases import cases
from support.model_configs import planned_engine, reference_inputs
from support.models import llava_7b_facts, tiny_facts
from support.staged import fresh, inspected, planned

NOTHING = Outcome()


def serving(
    changes: dict[str, Any] | None = None, *, ready: int = 1, wanted: int = 1
) -> tuple[Snapshot, Plan]:
    """Return a model whose Deployment exists with pods of the wanted revision."""
    snapshot, plan = inspected(changes, built=True)
    digest = plan.rollout.serving_hash
    deployment = DeploymentState(
        "llava", "uid", 1, 1, wanted, ready, ready, ready, ready, serving_hash=digest
    )
    pods = (PodState(digest, "Running", ready=True),) * ready
    observed = replace(snapshot.observed, deployment=deployment, pods=pods)
    return planned(replace(snapshot, observed=observed))


def conditions(stage: tuple[Snapshot, Plan], outcome: Outcome = NOTHING) -> dict[str, str]:
    return {
        one["type"]: f"{one['status']} {one['reason']}"
        for one in derive(*stage, outcome)["conditions"]
    }


@cases(
    "stage expected",
    {
        "fresh": (
            fresh(),
            {
                "Ready": "False Inspecting",
                "Available": "False NoReplicas",
                "Planned": "False Inspecting",
                "EngineBuilt": "False WaitingForPlan",
                "RollingOut": "False WaitingForEngine",
                "ScalingActive": "False AutoscalingOff",
                "Degraded": "False AsExpected",
            },
        ),
        "building": (
            inspected(),
            {
                "Ready": "False Building",
                "Planned": "True PlanComplete",
                "EngineBuilt": "False Building",
            },
        ),
        "rolling-out": (
            inspected(built=True),
            {
                "Ready": "False RolloutInProgress",
                "EngineBuilt": "True BuildSucceeded",
                "RollingOut": "True RolloutInProgress",
            },
        ),
        "serving": (
            serving(),
            {
                "Ready": "True ReplicasAvailable",
                "Available": "True ReplicasAvailable",
                "RollingOut": "False RolloutComplete",
            },
        ),
        "two-replicas": (
            serving({"replicas": 2}, ready=2, wanted=2),
            {"Ready": "True ReplicasAvailable", "RollingOut": "False RolloutComplete"},
        ),
        "scaled-to-zero": (
            serving({"replicas": 0}, ready=0, wanted=0),
            {
                "Ready": "True NoReplicas",
                "Available": "False NoReplicas",
                "RollingOut": "False RolloutComplete",
            },
        ),
        "spec-contradicts-the-checkpoint": (
            inspected({"engine": {"maxSeqLen": 1000}}, refused=True),
            {
                "Ready": "False InvalidSpec",
                "Planned": "False InvalidSpec",
                "Degraded": "True InvalidSpec",
            },
        ),
    },
)
def test_conditions(stage: tuple[Snapshot, Plan], expected: dict[str, str]) -> None:
    actual = conditions(stage)
    assert expected == {kind: actual[kind] for kind in expected}


def test_a_model_stays_ready_while_pods_of_the_former_revision_answer() -> None:
    """Requests are answered, so it is Ready; RollingOut and the message say what is awaited."""
    snapshot, plan = serving()
    pods = (PodState("old", "Running", ready=True),)
    observed = replace(snapshot.observed, pods=pods)
    status = derive(replace(snapshot, observed=observed), plan, NOTHING)
    (ready,) = [one for one in status["conditions"] if one["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("True", "ReplicasAvailable")
    assert ready["message"] == (
        f"1 replica of the former revision answers meanwhile: {plan.rollout.message}"
    )


def test_a_rollout_that_is_stuck_is_ready_and_degraded() -> None:
    """What stops the new pods is Degraded and stands in all three; the old ones answer."""
    snapshot, plan = serving()
    stuck = replace(
        plan.rollout,
        step=Step.RUNNING,
        reason="ImagePullFailed",
        message="container server does not start: its image cannot be pulled: not found",
        complete=False,
    )
    pods = (PodState("old", "Running", ready=True),)
    observed = replace(snapshot.observed, pods=pods)
    stage = (replace(snapshot, observed=observed), replace(plan, rollout=stuck))
    actual = conditions(stage)
    assert (actual["Ready"], actual["RollingOut"], actual["Degraded"]) == (
        "True ReplicasAvailable",
        "True ImagePullFailed",
        "True ImagePullFailed",
    )


def test_nothing_that_answers_is_not_ready() -> None:
    """Pods of the former revision that do not answer any more leave the stage's reason."""
    snapshot, plan = serving()
    deployment = replace(snapshot.observed.deployment, available=0)
    observed = replace(snapshot.observed, pods=(), deployment=deployment)
    actual = conditions((replace(snapshot, observed=observed), plan))
    assert actual["Ready"] == "False PodsStarting"


@cases(
    "ready wanted expected",
    {
        "starting": (0, 1, "0/1"),
        "scaling-out": (1, 2, "1/2"),
        "scaling-in": (2, 1, "2/1"),
        "none-wanted": (0, 0, "0/0"),
    },
)
def test_replicas_are_shown_as_ready_of_wanted(ready: int, wanted: int, expected: str) -> None:
    """As kubectl shows a Deployment's: a starting model has 0 of 1, not 0."""
    snapshot, plan = serving()
    assert snapshot.spec is not None
    deployment = replace(snapshot.observed.deployment, ready=ready)
    observed = replace(snapshot.observed, deployment=deployment)
    spec = snapshot.spec.model_copy(update={"replicas": wanted})
    status = derive(replace(snapshot, observed=observed, spec=spec), plan, NOTHING)
    assert status["readyOfWanted"] == expected


def test_errors_of_the_cluster_make_a_model_degraded() -> None:
    errors = (StageError("apply", "QuotaExceeded", "Job x: exceeded quota"),)
    status = derive(*fresh(), Outcome(errors=errors))
    (degraded,) = [one for one in status["conditions"] if one["type"] == "Degraded"]
    assert (degraded["status"], degraded["reason"], degraded["message"]) == (
        "True",
        "QuotaExceeded",
        "Job x: exceeded quota",
    )


@cases("stage", {"fresh": fresh(), "building": inspected(), "serving": serving()})
def test_status_is_what_the_api_takes(stage: tuple[Snapshot, Plan]) -> None:
    snapshot, plan = stage
    status = derive(snapshot, plan, NOTHING)
    MultimodalModelStatus.model_validate(status)
    assert status == derive(replace(snapshot, status=status), plan, NOTHING)


def test_summaries_of_a_serving_model() -> None:
    """People find numbers, selector and URL of the model."""
    status = derive(*serving(), NOTHING)
    assert (
        status["plan"]["family"],
        status["plan"]["limits"]["maxInputLen"],
        status["url"],
        status["readyReplicas"],
        status["build"]["manifestSha256"],
    ) == ("llava", 96, "http://llava.demo.svc/v1", 1, "ab" * 32)


def test_frozen_models_keep_what_is_known() -> None:
    """A typo in the spec hides neither URL nor plan of what still serves."""
    snapshot, plan = serving()
    status = derive(snapshot, plan, NOTHING)
    error = SpecError("InvalidSpec", "unknown field", "spec.x")
    broken = replace(snapshot, spec=None, spec_error=error, status=status)
    after = derive(broken, decide(broken), NOTHING)
    assert [(status[key], True) for key in ("url", "plan", "build")] == [
        (after[key], True) for key in ("url", "plan", "build")
    ]


def test_job_and_attempts_stay_known_after_the_job_is_gone() -> None:
    """The number of attempts is reported although the Job was deleted with its result recorded."""
    snapshot, plan = inspected()
    before = derive(snapshot, plan, NOTHING)
    done, done_plan = inspected(built=True)
    after = derive(replace(done, status=before), done_plan, NOTHING)
    assert (before["build"]["jobName"], 1) == (
        after["build"]["jobName"],
        after["build"]["attempts"],
    )


def test_models_without_vision_say_so() -> None:
    facts = (tiny_facts(), llava_7b_facts(), tiny_facts(vision=None))
    reported = []
    for found in facts:
        snapshot, plan = inspected()
        plan = replace(plan, engine=planned_engine(reference_inputs(found)))
        status = derive(snapshot, plan, NOTHING)
        (message,) = [one["message"] for one in status["conditions"] if one["type"] == "Planned"]
        reported.append(("image" in message, status["plan"].get("featuresPerImage")))
        assert ("image" in status["plan"]["inputModalities"]) == ("image" in message)
    assert reported == [(True, 16), (True, 576), (False, None)]


@cases(
    "reason message",
    {
        "name": ("NameTaken", "Service llava exists already"),
        "namespace": ("NamespaceNotEnabled", "kubectl label namespace a b=true"),
        "store": ("StoreCannotGrow", "spec.build.store.size requests 2Gi"),
        "quota": ("QuotaExceeded", "exceeded quota: few"),
        "right": ("ClusterError", "give x the right to patch jobs"),
    },
)
@pytest.mark.parametrize("stage", [fresh(), inspected()], ids=["fresh", "building"])
def test_a_refusal_is_why_a_model_is_not_ready(
    stage: tuple[Snapshot, Plan], reason: str, message: str
) -> None:
    """While children are refused no stage is under way, whatever it was about to do."""
    refused = StageError("apply", reason, message)
    status = derive(*stage, Outcome(errors=(refused,)))
    (ready,) = [one for one in status["conditions"] if one["type"] == "Ready"]
    assert (ready["status"], ready["reason"], ready["message"]) == ("False", reason, message)


def test_a_refusal_leaves_pods_ready_that_answer() -> None:
    """Ready says whether requests are answered; Degraded has the refusal."""
    refused = StageError("apply", "NamespaceNotEnabled", "kubectl label namespace a b=true")
    found = {
        one["type"]: (one["status"], one["reason"])
        for one in derive(*serving(), Outcome(errors=(refused,)))["conditions"]
    }
    assert (found["Ready"], found["Degraded"]) == (
        ("True", "ReplicasAvailable"),
        ("True", "NamespaceNotEnabled"),
    )
