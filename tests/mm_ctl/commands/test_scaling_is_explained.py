"""`mmctl scaling explain` reports in sentences why there are so many replicas."""

import re
from dataclasses import replace
from typing import Any

import pytest

from mm_ctl.commands.scaling import explain
from support.cases import cases
from support.golden import Golden
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


MODELS = {
    "everything": model(SCALING),
    "off": model(None, mode="Off"),
    "no costs": model({**SCALING, "work": None}),
    "a cost is refused": model({**SCALING, "workProblem": "none above zero for text_token"}),
    "a cost is too low": model({**SCALING, "inputs": {"fullLoad": 0.3}}),
    "not yet": model(None),
    "a warm replica": model(SCALING, warmReplicas=1),
    "at most": model(SCALING, maxReplicas=3),
    "at least": model(SCALING, minReplicas=3),
}


def test_everything_that_led_to_the_number_is_reported(golden: Golden) -> None:
    """Of all but the first what it says besides."""
    lines = {name: list(explain(document)) for name, document in MODELS.items()}
    usual = lines["everything"]
    others = {
        name: [line for line in found if line not in usual]
        for name, found in lines.items()
        if found is not usual
    }
    golden.check_yaml("scaling-explain.yaml", {"everything": "\n".join(usual), **others})


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
