"""Which of the costs that pods measured are counted with."""

from dataclasses import replace

from mm_api.v1alpha1 import AutoscalingSpec
from mm_operator.autoscaling import RequestRate, Traffic, WorkCost
from mm_operator.scaling.costs import Measured, believed, measured
from mm_operator.scaling.evaluation import objectives_of
from mm_operator.scaling.model_autoscaler import ModelAutoscaler, Requested
from mm_operator.scaling.traffic import Reading
from mm_operator.scaling.view import ScalingAuthority
from support.cases import cases

NOW = 1_000_000.0
REPORTED = {"request": 0.02, "image_token": 0.001, "text_token": 0.0002, "output_token": 0.01}
COST = WorkCost(0.02, 0.001, 0.0002, 0.01)
SPEC = AutoscalingSpec.model_validate(
    {"maxReplicas": 4, "objectives": [{"metric": "TimeToFirstToken", "target": "500ms"}]}
)


@cases("busy", {"one-of-two": [18.0], "two-of-four": [18.0, 2.0], "refused-and-slow": [0.0, 18.0]})
def test_pods_on_busy_nodes_do_not_decide(busy: list[float]) -> None:
    """Half of the pods may have measured too much, and some nothing: what the others say holds."""
    slow = [{unit: factor * cost for unit, cost in REPORTED.items()} for factor in busy]
    quiet = [REPORTED] * max(1, len(busy) - sum(factor == 0 for factor in busy))

    assert measured([*slow, *quiet]) == Measured(REPORTED)


def test_a_refused_cost_is_the_one_before() -> None:
    """Zero is not counted with: what is known stays, the other units are new, and it is shown."""
    before = replace(COST, text_token_seconds=0.0005)
    cost, problem = believed(measured([REPORTED | {"text_token": 0.0}]), before)

    assert cost == replace(COST, text_token_seconds=0.0005)
    assert problem == (
        "the pods measured no cost above zero for text_token: the one known from before is kept"
    )


@cases(
    "before units",
    {
        "never-known": (None, "request and text_token"),
        "known-as-zero": (replace(COST, request_seconds=0.0), "request"),
    },
)
def test_without_one_before_slots_are_counted(before: WorkCost | None, units: str) -> None:
    """Part of the costs would be too little work: none is used, and the status says why."""
    cost, problem = believed(measured([REPORTED | {"request": 0.0, "text_token": -1.0}]), before)

    assert cost is None
    assert f"no cost above zero for {units}, and none is known from before" in problem
    assert "requests in flight are counted instead" in problem


def test_an_image_that_costs_too_little_to_see_costs_what_words_do() -> None:
    """Only the image's cost was lost in noise: the rest is used, not slots; it follows pods."""
    without = REPORTED | {"image_token": 0.0}
    cost, problem = believed(measured([without]), None)

    assert cost == replace(COST, image_token_seconds=COST.text_token_seconds)
    assert problem == (
        "the pods measured no cost above zero for image_token: it counts as a text_token, which it "
        "costs at least, until a pod measures it"
    )
    assert believed(measured([without]), cost) == (cost, problem)
    quicker = measured([without | {"text_token": 0.0001}])
    assert believed(quicker, cost)[0] == replace(
        COST, text_token_seconds=0.0001, image_token_seconds=0.0001
    )
    assert believed(measured([REPORTED]), cost) == (COST, "")


def test_work_that_no_pod_reported_costs_nothing() -> None:
    """A model without images has no cost of them, and nothing is wrong with that."""
    words = {unit: cost for unit, cost in REPORTED.items() if unit != "image_token"}

    assert believed(measured([words]), None) == (replace(COST, image_token_seconds=0.0), "")


def test_the_status_says_what_is_not_believed() -> None:
    autoscaler, requested = ModelAutoscaler({}, NOW, 1), Requested(SPEC, 1, slots_per_replica=1)
    objectives = objectives_of(SPEC, slots_per_replica=1)
    quiet = RequestRate(requests=1.0, image_tokens=0.0, text_tokens=10.0)
    traffic = Traffic(quiet, quiet, mean_output_tokens=None, in_flight=0.1)
    written = []
    for number, reported in enumerate([[REPORTED | {"text_token": 0.0}], [], [REPORTED]]):
        reading, now = Reading(traffic, costs=measured(reported)), NOW + 15 * number
        decision = autoscaler.decide(requested, objectives, pods=[], reading=reading, now=now)
        view = autoscaler.publish(requested, decision, ScalingAuthority(), now)
        written.append(None if view is None else (view.status.work_problem, view.status.work))

    first, silent, last = written
    assert "text_token" in first[0]
    assert first[1] is None
    assert silent is None
    assert last[0] is None
    assert last[1] is not None
