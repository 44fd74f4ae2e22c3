"""What `mmctl compare` and pods found of an engine becomes status, and may hold Ready back."""

from dataclasses import replace
from typing import Any

from mm_api.documents.evaluation import EvaluationReport, FirstDifference, ReferenceFigures
from mm_api.documents.server_state import ServerState
from mm_operator.model import Outcome, Plan, PodState, Snapshot
from mm_operator.status.derive import derive
from support.cases import cases
from support.staged import inspected, planned

FIGURES = ReferenceFigures(dtype="float32", bound=0.02, mean_log_prob_distance=0.0)
AGREES = EvaluationReport(
    fingerprint="a" * 64,
    prompts=20,
    tokens=140,
    agreed=140,
    near_ties=0,
    failed_prompts=0,
    reference=FIGURES,
)
DIFFERS = AGREES.model_copy(
    update={
        "failed_prompts": 3,
        "first_difference": FirstDifference(
            prompt="What?", token=1, expected="a", answered="b", distance=3.0, bound=0.02
        ),
    }
)
BY_PODS = AGREES.model_copy(update={"prompts": 6, "reference": None})


def status_of(
    text: str | EvaluationReport,
    *,
    required: bool = False,
    pods: EvaluationReport | None = None,
    of_this_engine: bool = True,
) -> dict[str, Any]:
    """Return the status of a model whose pod answers, with a text in its annotation."""
    changes = {"rollout": {"requireEvaluation": True}} if required else None
    snapshot, plan = inspected(changes, built=True)
    assert plan.build_plan is not None
    own = {"fingerprint": plan.build_plan.fingerprint} if of_this_engine else {}
    if isinstance(text, EvaluationReport):
        text = text.model_copy(update=own).to_json()
    servers = (ServerState(evaluation=pods.model_copy(update=own)),) if pods else ()
    observed = replace(
        snapshot.observed, pods=(PodState(plan.rollout.serving_hash, "Running", ready=True),)
    )
    stage = planned(replace(snapshot, observed=observed, servers=servers, comparison=text))
    return derive(*stage, Outcome())


def condition(status: dict[str, Any], kind: str) -> tuple[str, str]:
    (found,) = (one for one in status["conditions"] if one["type"] == kind)
    return found["status"], found["reason"]


def test_a_comparison_is_in_the_status() -> None:
    for pods in (None, BY_PODS):
        shown = status_of(AGREES, pods=pods)["evaluation"]
        assert (shown["prompts"], shown["reference"]["dtype"]) == (20, "float32")
    wrong = DIFFERS.model_copy(update={"prompts": 6, "reference": None})
    assert status_of(AGREES, pods=wrong)["evaluation"]["prompts"] == 6


def test_a_difference_degrades_a_model() -> None:
    """It is Ready all the same: its pods answer, and nothing requires an evaluation."""
    status = status_of(DIFFERS)
    assert condition(status, "Degraded") == ("True", "EvaluationFailed")
    assert condition(status, "Ready")[0] == "True"


@cases(
    "text", {"nothing": "", "no-json": "{", "no-report": '{"prompts": 20}', "not-of-mmctl": BY_PODS}
)
def test_other_texts_are_none(text: str | EvaluationReport) -> None:
    assert "evaluation" not in status_of(text)


def test_a_comparison_of_another_engine_is_none() -> None:
    """It stays in the annotation until the next one, and is not shown."""
    assert "evaluation" not in status_of(AGREES, of_this_engine=False)


@cases(
    "text pods expected",
    {
        "nothing-compared": ("", None, ("False", "EvaluationMissing")),
        "compared": (AGREES, None, ("True", "ReplicasAvailable")),
        "pods-compared": ("", BY_PODS, ("True", "ReplicasAvailable")),
        "differs": (DIFFERS, BY_PODS, ("False", "EvaluationFailed")),
    },
)
def test_ready_may_wait_for_an_evaluation(
    text: str | EvaluationReport, pods: EvaluationReport | None, expected: tuple[str, str]
) -> None:
    """`rollout.requireEvaluation`: of mmctl, or of the pods."""
    status = status_of(text, required=True, pods=pods)
    assert condition(status, "Ready") == expected
    (ready,) = (one for one in status["conditions"] if one["type"] == "Ready")
    assert ("mmctl compare llava --reference" in ready["message"]) == (
        expected[1] == "EvaluationMissing"
    )


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
