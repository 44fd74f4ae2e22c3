"""An objective that no bucket shows, or a query that only grows, is refused when it is written."""

import re
from typing import Any

import pytest

from mm_api.metrics import OBJECTIVE_HISTOGRAMS, buckets_of
from mm_api.v1alpha1 import duration
from mm_api.v1alpha1.autoscaling import AutoscalingSpec
from mm_api.v1alpha1.metric_rules import METRIC_RULES
from mm_api.v1alpha1.validation import validate
from support.match_steps import Steps
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


def query(text: str) -> dict[str, Any]:
    return document(at("autoscaling", {"maxReplicas": 2, "customQuery": text}))


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
GROWING = [
    pytest.param(query(text), id=text)
    for text in (
        "mm_requests_total",
        "sum(mm_requests_total)",
        "sum(mm_requests_total{model='$model'}) / 100",
        "ceil(sum by (model) (mm_output_tokens_total{namespace='$namespace'}) / 8)",
        "mm_requests_accepted_total offset 5m",
        "mm_requests_total @ 1609746000",
        "histogram_quantile(0.95, mm_time_to_first_token_seconds_bucket)",
        "histogram_quantile(0.95, sum by (le) (mm_request_seconds_bucket))",
        "mm_request_seconds_sum / mm_request_seconds_count",
        "sum(mm_request_seconds)",
        "max_over_time(mm_requests_total[5m])",
        "quantile_over_time(0.9, mm_requests_total{a='b'}[5m])",
        "sum(nv_inference_count)",
        "sum(nv_inference_request_duration_us) / 1000",
        "rate(mm_requests_total[5m]) + mm_requests_total",
        "max(vector(1) or mm_requests_total)",
        "mm_requests_total > 5",
        "sum(vllm:request_success_total)",
        "mm_requests_total OFFSET 5m",
        "mm_requests_total{a='}'}",
        "count(mm_requests_total) + mm_requests_total",
        "sum(mm_requests_total # [5m]\n)",
        "my_rate(mm_requests_total)",
        "max_over_time((mm_requests_total)[5m:])",
        "predict_linear(mm_requests_total[5m], 60)",
        "mm_requests_total - 5",
        "label_replace(mm_requests_total, 'a', '$1', 'b', '')",
        "sum without (le) (mm_request_seconds_bucket)",
        "max_over_time(mm_requests_total[9m:1m])",
        "job:mm_requests_total:sum",
        "cluster:mm_requests_total",
        "sum(job:mm_requests_total:max{job='a'})",
    )
]
UNNAMED = [
    pytest.param(query(text), id=text)
    for text in (
        "{__name__='mm_requests_total'}",
        'sum({__name__ =~ ".*_total", model="$model"})',
        "max({job='a', __name__!='up'})",
        '{"mm_requests_total"}',
        '{"mm.requests.total", model="$model"} / 2',
        "up and {job='a'}",
        "up OR{job='a'}",
        "up * on (pod) group_left {job='a'}",
        "rate({__name__='a_total'}[5m]) + {__name__='a_total'}",
        "max_over_time({__name__=`mm_requests_total`}[5m:])",
        "{a='}',b='{'} - rate(mm_requests_total[5m])",
    )
]
EMPTY = [
    pytest.param(query(text), id=name)
    for text, name in ((" ", "blank"), ("\n\t", "lines"), ("# later", "comment"))
]
MOVING = [
    pytest.param(query(text), id=text)
    for text in (
        "vector(3)",
        "ceil(sum(mm_requests_running{model='$model'}) / 8)",
        "sum(rate(mm_requests_total[5m])) / 2",
        "sum(rate(mm_requests_total{code=~'2..',model=\"$model\"}[5m] offset 1m)) / 2",
        "sum(increase(mm_output_tokens_total [1m]))",
        "histogram_quantile(0.95, sum by (le) (rate(mm_request_seconds_bucket[5m]))) / 2",
        "rate(mm_request_seconds_sum[5m]) / rate(mm_request_seconds_count[5m])",
        "max_over_time(sum(rate(mm_requests_total[5m]))[30m:1m])",
        "count(mm_requests_total)",
        "absent(mm_requests_total) * 2",
        "avg_over_time(mm_requests_waiting[5m])",
        "sum(nv_inference_pending_request_count)",
        "sum(up{job='x_total'})",
        "sum(queue_messages_count)",
        "deriv(mm_requests_total[10m])",
        "vector(2) # not mm_requests_total",
        "sum(rate(mm_requests_total # of\n [5m]))",
        "max(up{path='/mm_requests_total, x'}) # \"",
        "sum by (shard_total) (rate(mm_requests_total[5m]))",
        "up * on (pod) group_left (x_total) info",
        "count by (pod) (mm_requests_total)",
        "COUNT(mm_requests_total{a=')'} + mm_output_tokens_total)",
        "rate(sum(mm_requests_total)[5m:])",
        "increase((sum by (model) (mm_requests_total))[5m:1m]) / 2",
        "sum(mm_requests_total) - sum(mm_requests_total offset 5m)",
        "job:mm_requests_total:rate5m / 2",
        "max(label_replace(up, 'a', '$1 mm_requests_total - ', 'b', ''))",
        "avg_over_time(histogram_quantile(0.9, sum by (le) (rate(x_bucket[5m])))[9m:1m])",
        "mad_over_time(mm_requests_total[5m])",
        "rate({__name__='mm_requests_total'}[5m])",
        "sum(rate({__name__=~'mm_.+_total'}[5m:1m])) / 2",
        "sum without (shard_total) (rate(mm_requests_total[5m]))",
        "max by (pod) (mm_requests_running {model='$model'})",
        "up{job='{a}'} and mm_requests_running{model=\"{__name__='x_total'}\"}",
        "vector(1) # {job='a'}",
        "job:mm_requests_total:sum_rate5m{job='a'}",
        "job:mm_request_seconds_bucket:p95 / 2",
    )
]
HOSTILE = (
    *("a_total-", "a_total - b_total offset", "a:", "a_", "_total ", "a{", "{a='", "rate(", "(("),
    *("rate((", "by (", "'", '"\\', "`a", "# a\n", "#", "{a='b'", "up {", " \t", "$", "a:b:rate "),
)


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
    """The first and the last bound are taken, what lies beside them is not."""
    text = target(metric, place)
    beside = text == "1ms" and place == "below"  # there is no shorter duration
    good = place in {"first", "last"} or beside
    assert (duration.parse(text).total_seconds() > 0, validate(objective(metric, text)) == []) == (
        True,
        good,
    )


@pytest.mark.parametrize(
    ("model", "words"),
    [
        pytest.param(*one.values, words, id=f"{words}: {one.id}")
        for models, words in (
            (GROWING, "which only grows"),
            (UNNAMED, "without a name"),
            (EMPTY, "customQuery has no expression"),
        )
        for one in models
    ],
)
def test_a_query_that_is_no_number_of_replicas(model: dict[str, Any], words: str) -> None:
    """Counters and histograms until their rate is taken, selectors of who knows what, nothing."""
    (problem,) = validate(model)
    assert problem.path == "spec.autoscaling.customQuery"
    assert words in problem.message


@pytest.mark.parametrize("part", HOSTILE)
@pytest.mark.parametrize("rule", [1, 2])
def test_a_hostile_query_takes_few_steps(rule: int, part: str) -> None:
    """Twice the text is four times the steps, not eight or more: no clock says so."""
    cel = METRIC_RULES[AutoscalingSpec][rule].cel
    for pattern in re.findall(r"findAll\(r'([^']*)'\)", cel):
        few, many = (Steps(pattern, part * (size // len(part))).count for size in (60, 120))
        assert many < 6 * few


@pytest.mark.parametrize("model", [*WITHIN, *MOVING])
def test_what_can_be_followed_is_taken(model: dict[str, Any]) -> None:
    assert validate(model) == []


@pytest.mark.cluster
def test_the_api_server_judges_alike(api: Api) -> None:
    refused = [one.values[0] for one in (*BEYOND, *GROWING, *UNNAMED, *EMPTY)]
    for model, said in zip(refused, api.refusals(refused), strict=True):
        (problem,) = validate(model)
        assert (f"{problem.path}: " in said, problem.message in said) == (True, True), said
    taken = [one.values[0] for one in (*WITHIN, *MOVING)]
    assert api.refusals(taken) == [""] * len(taken)
