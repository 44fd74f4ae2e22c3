"""`mmctl scaling explain` reports in sentences why there are so many replicas."""

import re
from dataclasses import replace
from typing import Any

import pytest

from mm_ctl.commands.scaling_explanation import explain
from support.cases import cases
from support.ticks import SIMPLE, one, traffic

AUTOSCALING = {"minReplicas": 1, "maxReplicas": 4}
SCALING: dict[str, Any] = {
    "desired": 3,
    "current": 2,
    "reason": "Demand",
    "message": "The arriving work keeps 2 replicas busy.",
    "inputs": {"demandForecast": 2.0, "utilisationTarget": 0.7, "inFlightRequests": 2.0},
    "vetoes": ["Pending: 1 replica does not serve yet."],
    "objectives": [
        {"name": "TimeToFirstTokenP95", "value": 0.7, "target": 0.5, "met": False},
        {"name": "RequestLatencyP95", "target": 5.0},
    ],
    "coldStartSeconds": 42.0,
    "coldStartPhases": {"pulled": 2.0, "loaded": 30.0, "warm": 10.0, "total": 42.0},
    "work": {
        "requestSeconds": 0.02,
        "imageTokenSeconds": 0.0005,
        "textTokenSeconds": 0.0001,
        "outputTokenSeconds": 0.0,
    },
    "history": [
        {"time": "2026-01-01T00:00:00Z", "fromReplicas": 1, "toReplicas": 2, "reason": "Demand: x"}
    ],
}


def model(scaling: dict[str, Any] | None, **autoscaling: Any) -> dict[str, Any]:
    spec = {"replicas": 2, "autoscaling": {**AUTOSCALING, **autoscaling}}
    status = {"scaling": scaling} if scaling else {}
    return {"metadata": {"namespace": "demo", "name": "tiny"}, "spec": spec, "status": status}


def test_everything_that_led_to_the_number_is_reported() -> None:
    assert list(explain(model(SCALING))) == [
        "demo/tiny has 2 replicas and should have 3 (Demand).",
        "  The arriving work keeps 2 replicas busy.",
        "  TimeToFirstTokenP95: 0.7 s against a target of 0.5 s: missed",
        "  RequestLatencyP95: no recent request, so nothing was measured",
        "  held back by Pending: 1 replica does not serve yet.",
        "  2 work that is about to arrive, in busy replicas",
        "  2 requests running and waiting, mean of a minute",
        (
            "  work is counted in seconds of a replica, as its pods measured them: a request 20 "
            "ms, a token of an image 0.5 ms, a token of text 0.1 ms"
        ),
        (
            "  more: when the arriving work passes 2.1 busy replicas (now 2), or a latency misses "
            "its target"
        ),
        (
            "  fewer: at most half of them at a time, when nothing above holds back, latencies are "
            "well below their targets and the work of the last minutes fits those that stay"
        ),
        "  a new replica takes 42 s from being scheduled to Ready, as measured",
        (
            "    2 s until its server's image runs, 30 s until the engine is loaded, 10 s until it "
            "has answered for the first time"
        ),
        "  last changes:",
        "    2026-01-01T00:00:00Z  1 -> 2  Demand: x",
    ]


@cases(
    "document sentence",
    {
        "off": (model(None, mode="Off"), "autoscaling is off"),
        "no-costs": (model({**SCALING, "work": None}), "no pod has measured"),
        "cost-refused": (
            model({**SCALING, "workProblem": "none above zero for text_token"}),
            "not all of what was measured is used: none above zero for text_token",
        ),
        "cost-too-low": (
            model({**SCALING, "inputs": {"fullLoad": 0.3}}),
            "a replica could do 30% of a counted replica's work when a queue grew before it",
        ),
        "not-yet": (model(None), "has not evaluated it yet"),
        "warm": (
            model(SCALING, warmReplicas=1),
            "passes 1.4 busy replicas (now 2, 1 replica beside it staying warm)",
        ),
        "at-most": (model(SCALING, maxReplicas=3), "raise it if the targets"),
        "at-least": (model(SCALING, minReplicas=3), "not below minReplicas"),
    },
)
def test_special_places_are_reported(document: dict[str, Any], sentence: str) -> None:
    """Off, not looked at, at the bounds: each has its own sentence."""
    assert sentence in "\n".join(explain(document))


@cases("warm", {"none": 0, "two-warm": 2})
def test_what_is_reported_to_change_the_number_changes_it(warm: int) -> None:
    """The policy itself requests one more just above the reported bound, and none just below."""
    objectives = replace(SIMPLE, warm_replicas=warm)
    settled = one(3 + warm, traffic(1.4), before=1.4, objectives=objectives)
    assert settled.replicas == 3 + warm

    inputs = {**settled.inputs, "demandForecast": 1.4}
    said = {"desired": settled.replicas, "reason": "Demand", "inputs": inputs}
    sentences = "\n".join(explain(model(said, maxReplicas=20, warmReplicas=warm)))
    [limit] = [float(found) for found in re.findall(r"passes (\S+) busy", sentences)]

    for change, more in ((-0.01, 0), (0.01, 1)):
        load = limit + change
        requested = one(3 + warm, traffic(load), before=load, objectives=objectives)
        assert requested.replicas == 3 + warm + more


@pytest.mark.parametrize(("replicas", "stay"), [(12, 6), (7, 4), (2, 1)])
def test_the_largest_step_down_is_as_reported(replicas: int, stay: int) -> None:
    """Without any work for long, the policy itself takes the half that the sentence says."""
    assert "at most half of them at a time" in "\n".join(explain(model(SCALING)))
    assert one(replicas, traffic(0.0), before=0.0).replicas == stay
