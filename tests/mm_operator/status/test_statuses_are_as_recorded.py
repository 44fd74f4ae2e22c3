"""The status of a model at the stages of its life, and after what befell it, word for word."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from mm_api.conditions import ConditionType, Reason
from mm_api.documents.evaluation import EvaluationReport, FirstDifference, ReferenceFigures
from mm_api.documents.server_state import Pool, PoolState, Role, ServerState
from mm_api.v1alpha1 import MultimodalModelStatus, ScalingStatus
from mm_operator.errors import SpecError
from mm_operator.model import (
    DeploymentState,
    Outcome,
    Plan,
    PodState,
    ScalingView,
    Snapshot,
    StageError,
)
from mm_operator.status.derive import derive
from mm_operator.status.events import transitions
from support.golden import Golden
from support.models import tiny_facts
from support.staged import fresh, inspected, planned

Stage = tuple[Snapshot, Plan]
CUDA = 64 << 20
OLD = PodState("old", "Running", ready=True)


def serving(
    changes: dict[str, Any] | None = None,
    *more: PodState,
    ready: int = 1,
    wanted: int = 1,
    encoders: int = 0,
    **fields: Any,
) -> Stage:
    snapshot, plan = inspected(changes, built=True, **fields)
    digest = plan.rollout.serving_hash
    deployment = DeploymentState(
        "llava", "uid", 1, 1, wanted, ready, ready, ready, ready, serving_hash=digest
    )
    pod = PodState(digest, "Running", ready=True)
    observed = replace(
        snapshot.observed,
        deployment=deployment,
        pods=(pod,) * ready + more,
        encoder_pods=(pod,) * encoders,
    )
    return planned(replace(snapshot, observed=observed))


def replaced(stage: Stage, *pods: PodState, **state: int) -> Stage:
    snapshot, _ = stage
    deployment = replace(snapshot.observed.deployment, **state)
    observed = replace(snapshot.observed, pods=pods, deployment=deployment)
    return planned(replace(snapshot, observed=observed))


def new(stage: Stage, **fields: Any) -> PodState:
    hash_ = stage[1].rollout.serving_hash
    return PodState(**{"serving_hash": hash_, "phase": "Pending", "ready": False, **fields})


def frozen(stage: Stage) -> Stage:
    error = SpecError("InvalidSpec", "unknown field", "spec.x")
    status = derive(*stage, Outcome())
    return planned(replace(stage[0], spec=None, spec_error=error, status=status))


def full(pool: Pool = "cuda", *, times: int = 1, role: Role = Role.SERVER) -> ServerState:
    size = CUDA if pool == "cuda" else 256 << 20
    return ServerState(role=role, pools=[PoolState(pool=pool, planned_bytes=size, full=times)])


def found_full(*servers: ServerState, pods: int = 3, changes: Any = None, **fields: Any) -> Stage:
    spec = {"replicas": pods, **(changes or {})}
    return serving(spec, ready=pods, wanted=pods, servers=servers, **fields)


AGREES = EvaluationReport(
    fingerprint="a" * 64,
    prompts=20,
    tokens=140,
    agreed=140,
    near_ties=0,
    failed_prompts=0,
    reference=ReferenceFigures(dtype="float32", bound=0.02, mean_log_prob_distance=0.0),
)
DIFFERENCE = FirstDifference(
    prompt="What color is it?",
    token=2,
    expected="a red",
    answered="a blue",
    distance=3.21,
    bound=0.2,
)
WRONG = {"failed_prompts": 5, "first_difference": DIFFERENCE}
DIFFERS = AGREES.model_copy(update=WRONG)
BY_PODS = AGREES.model_copy(update={"prompts": 6, "reference": None})
WRONG_BY_PODS = BY_PODS.model_copy(update=WRONG)


def evaluated(
    text: str | EvaluationReport = "",
    *pods: EvaluationReport | None,
    ready: bool = True,
    required: bool = False,
    of_this_engine: bool = True,
    before: EvaluationReport | None = None,
) -> Stage:
    changes = {"rollout": {"requireEvaluation": True}} if required else None
    number = max(1, len(pods))
    spec = {"replicas": number, **(changes or {})}
    snapshot, plan = serving(spec, ready=number if ready else 0, wanted=number)
    assert plan.build_plan is not None
    own = {"fingerprint": plan.build_plan.fingerprint} if of_this_engine else {}
    if isinstance(text, EvaluationReport):
        text = text.model_copy(update=own).to_json()
    servers = tuple(ServerState(evaluation=one and one.model_copy(update=own)) for one in pods)
    status = dict(snapshot.status)
    if before is not None:
        former = before.model_copy(update=own)
        status["evaluation"] = former.model_dump(mode="json", by_alias=True, exclude_none=True)
    return planned(replace(snapshot, servers=servers, comparison=text, status=status))


def strange_report() -> Stage:
    snapshot, plan = serving()
    return replace(snapshot, status={"evaluation": {"prompts": "many"}}), plan


SAID = ScalingView(
    ScalingStatus(desired=3, current=2, reason="Demand", message="busy"),
    active=True,
    reason=Reason.FOLLOWING_LOAD,
    message="replicas move between 1 and 4",
)
BLIND = replace(SAID, active=False, reason=Reason.METRICS_MISSING, message="no server answers")


def former(reason: str) -> dict[str, Any]:
    said = {"type": "ScalingActive", "status": "False", "reason": reason, "message": "as before"}
    scaling = {"desired": 2, "current": 2, "reason": "Idle", "message": "as before"}
    return {"conditions": [said | {"lastTransitionTime": "x"}], "scaling": scaling}


def autoscaled(view: ScalingView | None, status: dict[str, Any]) -> Stage:
    objectives = [{"metric": "TimeToFirstToken", "target": "500ms"}]
    spec = {"autoscaling": {"maxReplicas": 4, "objectives": objectives}}
    return serving(spec, scaling=view, status=status)


SERVING = serving()
MPS = ServerState(sharing_problem="no daemon starts")
NO_COMPILER = ServerState(kernel_problem="RuntimeError: Failed to find C compiler")
BIG_POOL = {"runtime": {"memoryPools": {"cuda": "256Mi"}}}
DISAGGREGATED = {"vision": {"placement": "Disaggregated", "replicas": 2}}
TO_ZERO = {"autoscaling": {"minReplicas": 0}}
ASLEEP = {
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "ScaledToZero",
            "lastTransitionTime": "2026-11-30T00:00:00Z",
        }
    ]
}
NO_IMAGE = {"container": "server", "waiting": "ErrImagePull", "waiting_message": "not found"}
STAGES: Mapping[str, Stage] = {
    "fresh": fresh(),
    "building": inspected(),
    "rolling out": inspected(built=True),
    "serving": SERVING,
    "serving texts alone": serving(facts=tiny_facts(vision=None)),
    "two replicas": serving({"replicas": 2}, ready=2, wanted=2),
    "scaling out": serving({"replicas": 2}, ready=1, wanted=2),
    "scaling in": serving({"replicas": 1}, ready=2, wanted=1),
    "scaled to zero": serving({"replicas": 0}, ready=0, wanted=0),
    "asleep": serving({"replicas": 0, **TO_ZERO}, ready=0, wanted=0),
    "wakes": serving(TO_ZERO, ready=0, wanted=1, status=ASLEEP),
    "starts for the first time": serving(TO_ZERO, ready=0, wanted=1),
    "wakes without its image": replaced(
        serving(TO_ZERO, ready=0, status=ASLEEP), new(SERVING, **NO_IMAGE)
    ),
    "spec contradicts the checkpoint": inspected({"engine": {"maxSeqLen": 1000}}, refused=True),
    "former revision answers": replaced(SERVING, OLD, new(SERVING), replicas=2),
    "former revision answers, image is missing": replaced(
        SERVING, OLD, new(SERVING, **NO_IMAGE), replicas=2
    ),
    "former revision answers no more": replaced(SERVING, available=0, ready=0),
    "spec that cannot be read": frozen(SERVING),
    "full pool, two of three servers": found_full(
        full(), full(times=2), changes={"engine": {"maxBatchSize": 2}}
    ),
    "full pool, one server": found_full(full(), pods=1),
    "full pool, a larger one is planned": found_full(full(), changes=BIG_POOL),
    "full pools, pinned too": found_full(full(), full("pinned")),
    "full pools of encoders": found_full(
        full("pinned", role=Role.ENCODER),
        full(role=Role.ENCODER),
        changes=DISAGGREGATED,
        encoders=2,
    ),
    "time slices in place of MPS": found_full(MPS),
    "no compiler for kernels": found_full(NO_COMPILER),
    "servers without trouble": found_full(
        ServerState(pools=[PoolState(pool="cuda", planned_bytes=CUDA)])
    ),
    "compared": evaluated(AGREES),
    "compared, and by pods": evaluated(AGREES, BY_PODS),
    "compared, pods differ": evaluated(AGREES, WRONG_BY_PODS),
    "compared with a difference": evaluated(DIFFERS),
    "compared, another engine": evaluated(AGREES, of_this_engine=False),
    "comparison is no JSON": evaluated("{"),
    "comparison is no report": evaluated('{"prompts": 20}'),
    "comparison is not of mmctl": evaluated(BY_PODS),
    "evaluation is required": evaluated(required=True),
    "evaluation is required, compared": evaluated(AGREES, required=True),
    "evaluation is required, by pods": evaluated("", BY_PODS, required=True),
    "evaluation is required, differs": evaluated(DIFFERS, BY_PODS, required=True),
    "one of three pods differs": evaluated("", None, BY_PODS, WRONG_BY_PODS),
    "one of three pods differs, none is ready": evaluated(
        "", None, BY_PODS, WRONG_BY_PODS, ready=False
    ),
    "pods of another engine differ": evaluated("", WRONG_BY_PODS, of_this_engine=False),
    "pods differed and are silent": evaluated("", None, ready=False, before=WRONG_BY_PODS),
    "pods differed and agree": evaluated("", BY_PODS, ready=False, before=WRONG_BY_PODS),
    "report of another version": strange_report(),
    "autoscaled": autoscaled(SAID, former(Reason.METRICS_MISSING)),
    "autoscaled, without metrics": autoscaled(BLIND, {}),
    "autoscaled, new leader": autoscaled(None, former(Reason.METRICS_MISSING)),
    "autoscaled, new leader, was off": autoscaled(None, former(Reason.AUTOSCALING_OFF)),
    "autoscaled, new model": autoscaled(None, {}),
    "autoscaled no more": serving(scaling=SAID, status=former(Reason.METRICS_MISSING)),
}
REFUSED = {
    "fresh, a quota": (fresh(), ("QuotaExceeded", "Job x: exceeded quota")),
    "building, a name": (inspected(), ("NameTaken", "Service llava exists already")),
    "serving, no label": (SERVING, ("NamespaceNotEnabled", "kubectl label namespace a b=true")),
}
"""A refusal is why a model is not ready, and leaves pods Ready that answer."""


def shown(status: dict[str, Any]) -> dict[str, Any]:
    found = {
        one["type"]: f"{one['status']} {one['reason']}: {one['message']}"
        for one in status["conditions"]
    }
    return {
        key: value for key, value in status.items() if key not in {"conditions", "plan"}
    } | found


def test_statuses(golden: Golden) -> None:
    """Of all but one serving model what differs from it is recorded; null: it is not there."""
    found = {name: derive(*stage, Outcome()) for name, stage in STAGES.items()}
    for name, (stage, (reason, message)) in REFUSED.items():
        found[name] = derive(*stage, Outcome(errors=(StageError("apply", reason, message),)))
    usual = shown(found["serving"])
    recorded = {"serving": found["serving"]}
    for name, status in found.items():
        now = shown(status)
        recorded[name] = recorded.get(name) or {
            key: now.get(key) for key in {**usual, **now} if now.get(key) != usual.get(key)
        }

    golden.check_yaml("statuses.yaml", recorded)


@pytest.mark.parametrize("name", STAGES)
def test_status_is_what_the_api_takes(name: str) -> None:
    """Deriving it again changes nothing."""
    snapshot, plan = STAGES[name]
    status = derive(snapshot, plan, Outcome())

    MultimodalModelStatus.model_validate(status)
    assert status == derive(replace(snapshot, status=status), plan, Outcome())


def test_job_and_attempts_stay_known_after_the_job_is_gone() -> None:
    """The number of attempts is reported although the Job was deleted with its result recorded."""
    before = derive(*STAGES["building"], Outcome())
    done, done_plan = STAGES["rolling out"]
    after = derive(replace(done, status=before), done_plan, Outcome())["build"]

    assert (before["build"]["jobName"], 1) == (after["jobName"], after["attempts"])


def test_the_size_that_would_do_holds_what_triton_takes() -> None:
    """Where Triton's own queue takes more than the gateway, the size is computed for that."""
    snapshot, plan = found_full(full())
    large = plan.engine.pool.model_copy(update={"table_bytes_per_request": 8 << 20, "factor": 1.25})
    plan = replace(plan, engine=replace(plan.engine, pool=large))
    limits = plan.engine.build_plan.engine.limits
    inside = plan.engine.serving_plan.max_queue_size + 2 * limits.max_batch_size
    # ceil512(k x N x S x f) + 1 MiB, entire MiB already.
    expected = inside * 10 + 1

    conditions = derive(snapshot, plan, Outcome())["conditions"]
    (degraded,) = (one for one in conditions if one["type"] == ConditionType.DEGRADED)
    assert f"to {expected}Mi." in degraded["message"]


def test_a_full_pool_is_an_event() -> None:
    before, after = (derive(*found_full(*said), Outcome()) for said in ((), (full(),)))

    events = transitions(before, after)
    assert [(one.type, one.reason) for one in events] == [("Warning", "MemoryPoolExhausted")]
