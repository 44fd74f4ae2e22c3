"""An objective that no bucket shows is refused when it is written."""

from typing import Any

import pytest

from mm_api.metrics import OBJECTIVE_HISTOGRAMS, buckets_of
from mm_api.v1alpha1 import duration
from mm_api.v1alpha1.validation import validate
from support.model_documents import at, document
from support.model_namespace import Api

LENGTHS = {"below": 0.5, "first": 1.0, "last": 1.0, "above": 1.5}


def target(metric: str, place: str) -> str:
    bound = buckets_of(OBJECTIVE_HISTOGRAMS[metric])[0 if place in {"below", "first"} else -1]
    milliseconds = bound * LENGTHS[place] * 1000
    return f"{max(int(milliseconds), 1)}ms" if milliseconds < 1000 else f"{int(milliseconds)}ms"


def objective(metric: str, text: str) -> dict[str, Any]:
    objectives = [{"metric": metric, "target": text}]
    return document(at("autoscaling", {"maxReplicas": 2, "objectives": objectives}))


BEYOND = [
    pytest.param(objective("TimeToFirstToken", "45s"), "5ms to 30s", id="ttft-above"),
    pytest.param(objective("TimeToFirstToken", "30001ms"), "5ms to 30s", id="ttft-just-above"),
    pytest.param(objective("TimeToFirstToken", "4ms"), "5ms to 30s", id="ttft-below"),
    pytest.param(objective("InterTokenLatency", "2s"), "1ms to 1s", id="inter-token-above"),
    pytest.param(objective("RequestLatency", "6m"), "50ms to 300s", id="request-above"),
    pytest.param(objective("RequestLatency", "1h"), "50ms to 300s", id="request-hour"),
    pytest.param(objective("QueueTime", "31s"), "5ms to 30s", id="queue-above"),
]
WITHIN = [
    pytest.param(objective(metric, text), id=f"{metric}-{text}")
    for metric, text in (
        ("TimeToFirstToken", "5ms"),
        ("TimeToFirstToken", "30s"),
        ("InterTokenLatency", "1s"),
        ("RequestLatency", "5m"),
        ("QueueTime", "1s500ms"),
    )
]


@pytest.mark.parametrize(("model", "bounds"), BEYOND)
def test_no_bucket_shows_the_target(model: dict[str, Any], bounds: str) -> None:
    (problem,) = validate(model)
    assert (problem.path, f"must be from {bounds}," in problem.message) == (
        "spec.autoscaling.objectives[0].target",
        True,
    )


@pytest.mark.parametrize("metric", OBJECTIVE_HISTOGRAMS)
@pytest.mark.parametrize("place", LENGTHS)
def test_bounds_are_the_histograms(metric: str, place: str) -> None:
    text = target(metric, place)
    beside = text == "1ms" and place == "below"  # there is no shorter duration
    good = place in {"first", "last"} or beside
    assert (duration.parse(text).total_seconds() > 0, validate(objective(metric, text)) == []) == (
        True,
        good,
    )


@pytest.mark.parametrize("model", WITHIN)
def test_what_can_be_followed_is_taken(model: dict[str, Any]) -> None:
    assert validate(model) == []


@pytest.mark.cluster
def test_the_api_server_judges_alike(api: Api) -> None:
    refused = [one.values[0] for one in BEYOND]
    for model, said in zip(refused, api.refusals(refused), strict=True):
        (problem,) = validate(model)
        assert (f"{problem.path}: " in said, problem.message in said) == (True, True), said
    taken = [one.values[0] for one in WITHIN]
    assert api.refusals(taken) == [""] * len(taken)
