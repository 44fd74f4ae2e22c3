"""What `mmctl compare` wrote beside a model is in `status.evaluation`, and may hold Ready back."""

from dataclasses import replace
from typing import Any

from mm_api.documents.evaluation import EvaluationReport, FirstDifference, ReferenceFigures
from mm_api.documents.server_state import ServerState
from mm_operator.model import Outcome, PodState
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
