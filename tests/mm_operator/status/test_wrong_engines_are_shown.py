"""What pods found when they compared their engine with its checkpoint becomes status and reason."""

from dataclasses import replace
from typing import Any

from mm_api.documents.evaluation import EvaluationReport, FirstDifference
from mm_api.documents.server_state import ServerState
from mm_operator.model import Outcome, Plan, PodState, Snapshot
from mm_operator.status.derive import derive
from support.cases import cases
from support.staged import inspected, planned


def served(
    *reports: EvaluationReport | None, ready: bool = False, before: EvaluationReport | None = None
) -> tuple[Snapshot, Plan]:
    """Return a model with a pod for each report, of the planned engine unless it says otherwise."""
    snapshot, plan = inspected(None, built=True)
    assert plan.build_plan is not None
    own = {"fingerprint": plan.build_plan.fingerprint}
    pod = PodState(plan.rollout.serving_hash, "Running", ready=ready)
    servers = tuple(
        ServerState(
            evaluation=one.model_copy(update=own) if one and one.fingerprint == PLANNED else one
        )
        for one in reports
    )
    status = dict(snapshot.status)
    if before is not None:
        status["evaluation"] = before.model_copy(update=own).model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
    observed = replace(snapshot.observed, pods=(pod,) * max(1, len(reports)))
    return planned(replace(snapshot, observed=observed, servers=servers, status=status))


PLANNED, OTHER = "a" * 64, "b" * 64
GOOD = EvaluationReport(
    fingerprint=PLANNED, prompts=6, tokens=40, agreed=40, near_ties=1, failed_prompts=0
)
WRONG = EvaluationReport(
    fingerprint=PLANNED,
    prompts=6,
    tokens=20,
    agreed=15,
    near_ties=0,
    failed_prompts=5,
    first_difference=FirstDifference(
        prompt="What color is it?",
        token=2,
        expected="a red",
        answered="a blue",
        distance=3.21,
        bound=0.2,
    ),
)


def conditions(*stage: Any) -> dict[str, tuple[str, str, str]]:
    found = derive(*stage, Outcome())["conditions"]
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in found}


def test_a_wrong_engine_is_named_with_prompt_token_and_distance() -> None:
    """Ready and Degraded have the reason; the figures are in the status."""
    stage = served(None, GOOD, WRONG)
    found = conditions(*stage)
    for kind, status in (("Ready", "False"), ("Degraded", "True")):
        assert found[kind][:2] == (status, "EvaluationFailed")
        for part in ("5 of 6 prompts", "'What color is it?'", "token 2", "'a red'", "3.21"):
            assert part in found[kind][2]
    written = derive(*stage, Outcome())["evaluation"]
    assert (written["failedPrompts"], written["firstDifference"]["token"]) == (5, 2)


def test_a_good_engine_has_its_figures() -> None:
    stage = served(GOOD, ready=True)
    written = derive(*stage, Outcome())["evaluation"]
    assert (written["prompts"], written["tokens"], written["agreed"]) == (6, 40, 40)
    assert "firstDifference" not in written
    assert {reason for _, reason, _ in conditions(*stage).values()}.isdisjoint({"EvaluationFailed"})


def test_an_engine_that_is_no_longer_planned_is_left_out() -> None:
    stage = served(WRONG.model_copy(update={"fingerprint": OTHER}))
    assert "evaluation" not in derive(*stage, Outcome())
    assert conditions(*stage)["Ready"][1] != "EvaluationFailed"


@cases("now expected", {"silent": (None, "EvaluationFailed"), "good": (GOOD, "PodsStarting")})
def test_what_was_found_stays_while_no_pod_says_anything(
    now: EvaluationReport | None, expected: str
) -> None:
    stage = served(now, before=WRONG)
    found = conditions(*stage)["Ready"]
    assert (found[1] == "EvaluationFailed") == (expected == "EvaluationFailed")


def test_a_report_of_another_version_is_passed() -> None:
    snapshot, plan = served(None)
    strange = replace(snapshot, status={**snapshot.status, "evaluation": {"prompts": "many"}})
    assert "evaluation" not in derive(strange, plan, Outcome())
