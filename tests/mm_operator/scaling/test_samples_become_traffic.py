"""What Prometheus knows of pods becomes the traffic of a model, or a sentence why it does not."""

from dataclasses import replace
from typing import Any

import pytest

from mm_operator.autoscaling import LatencyMetric, LatencyObjective
from mm_operator.scaling.answers import MetricsError, Sample, read_vector
from mm_operator.scaling.costs import Measured
from mm_operator.scaling.pods import ScaledPod
from mm_operator.scaling.queries import PART
from mm_operator.scaling.traffic import Reading, by_pod, read_traffic
from support.cases import cases

NOW = 10_000.0
READY = ScaledPod("a", "1", ready=True, terminating=False, created_at=0.0, ready_at=1000.0)
OBJECTIVE = LatencyObjective(LatencyMetric.TTFT, 95, 0.5)
VALUES = {
    "accepted_fast": 2.0,
    "accepted_steady": 1.0,
    "image_tokens_fast": 32.0,
    "prompt_tokens_fast": 100.0,
    "running": 3.0,
    "waiting": 1.0,
    "sampled_at": 500.0,
    "now": 510.0,
    "output": 60.0,
    "finished": 3.0,
    "finished_newest": 0.5,
}


def vector(*results: tuple[dict[str, str], str]) -> dict[str, Any]:
    result = [{"metric": labels, "value": [NOW, text]} for labels, text in results]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def samples(pod: str = "a", namespace: str = "demo", **changes: float) -> list[Sample]:
    where = {"namespace": namespace, "pod": pod}
    return [Sample({**where, PART: part}, value) for part, value in (VALUES | changes).items()]


def buckets(window: str, **counts: float) -> dict[str, list[Sample]]:
    """Return a histogram of pod a; a bucket's bound is written `b0_25`, infinity `inf`."""
    part = {"namespace": "demo", "pod": "a"}
    bounds = {name: name.lstrip("b").replace("_", ".") for name in counts}
    samples = [
        Sample({**part, "le": bounds[name].replace("inf", "+Inf")}, count)
        for name, count in counts.items()
    ]
    return {f"TimeToFirstToken_{window}": samples}


def read(
    found: list[Sample],
    *pods: ScaledPod,
    former: tuple[str, ...] = (),
    histograms: dict[str, list[Sample]] | None = None,
) -> Reading:
    return read_traffic(
        namespace="demo",
        pods=pods or (READY,),
        former=former,
        series=by_pod(found, histograms or {}),
        objectives=[OBJECTIVE],
        now=NOW,
    )


def test_rates_gauges_and_lengths_are_summed() -> None:
    other = replace(READY, name="b", uid="2")
    traffic = read([*samples(), *samples("b", output=30.0)], READY, other).traffic

    assert (traffic.fast.requests, traffic.fast.image_tokens) == (4.0, 64.0)
    assert (traffic.fast.text_tokens, traffic.in_flight) == (136.0, 8.0)
    assert (traffic.running, traffic.completed) == (6.0, 1.0)
    assert traffic.mean_output_tokens == 15.0


def test_costs_are_the_middle_of_what_pods_measured() -> None:
    """One pod on a busy node does not decide; a unit that none reported is no work of the model."""
    found = [
        one
        for name, value in zip("abc", (0.1, 0.2, 9.0), strict=True)
        for one in samples(name, work_request=value, work_image_token=value / 100)
    ]

    assert read(found, *ABC).costs == Measured({"request": 0.2, "image_token": 0.002})
    assert not read(samples()).costs
    assert read(samples(work_request=0.0)).costs == Measured({}, ("request",))


def test_scrapes_of_a_minute_are_enough() -> None:
    """Prometheus' own default has no rate over a minute: that over three minutes stands for it."""
    slow = [one for one in samples(image_tokens_steady=16.0) if "_fast" not in one.labels[PART]]
    gone = [one for one in samples("gone") if "_fast" not in one.labels[PART]]
    traffic = read([*slow, *gone], READY, former=("gone",)).traffic

    assert traffic.fast == replace(traffic.steady, requests=1.0)
    assert (traffic.fast.image_tokens, traffic.steady.requests) == (16.0, 2.0)


def test_the_newest_rates_are_reported_where_they_are_known() -> None:
    """What lies between the last two samples is read; a pod with one sample has none."""
    known = read(samples(accepted_newest=7.0, image_tokens_newest=16.0)).traffic
    unknown = read(samples()).traffic

    assert (known.newest.requests, known.newest.image_tokens) == (7.0, 16.0)
    assert unknown.newest is None


ABC = tuple(replace(READY, name=name, uid=name) for name in "abc")


@cases(
    "others pods former requests inside",
    {
        "strangers": ([*samples("stranger"), *samples("a", "other")], (READY,), (), 2.0, 4.0),
        "went": (samples("gone"), (READY,), ("gone",), 4.0, 4.0),
        "one-of-three-fails": (samples("b"), ABC, (), 6.0, 12.0),
    },
)
def test_arrivals_of_all_pods_of_the_model_count(
    others: list[Sample],
    pods: tuple[ScaledPod, ...],
    former: tuple[str, ...],
    requests: float,
    inside: float,
) -> None:
    """Of those that went as well, and of none that the API server does not know."""
    traffic = read([*samples(), *others], *pods, former=former).traffic
    assert (traffic.fast.requests, traffic.in_flight) == pytest.approx((requests, inside))


@cases(
    "found pods sentence",
    {
        "nothing": ([], (READY,), "has no series of the Ready pods"),
        "stale": (samples(sampled_at=400.0), (READY,), "fresh series of 0 of 1 Ready pods"),
        "one-scrape-in-three-minutes": (
            [one for one in samples() if not one.labels[PART].startswith("accepted")],
            (READY,),
            r"scrapes the pods too seldom for a rate: set the scrape interval to 15 s",
        ),
        "most-missing": (
            samples(),
            ABC,
            "fresh series of 1 of 3 Ready pods",
        ),
    },
)
def test_what_is_not_known_is_reported(
    found: list[Sample], pods: tuple[ScaledPod, ...], sentence: str
) -> None:
    """Too little to decide on is no traffic, and never zero traffic."""
    reading = read(found, *pods)

    assert reading.traffic is None
    assert sentence in reading.problem


def test_percentiles_are_prometheus_own() -> None:
    histogram = buckets("fast", b0_25=50, b0_5=90, b1=100, inf=100)
    reading = read(samples(), histograms=histogram)

    assert reading.traffic.latencies == {"TimeToFirstTokenP95": pytest.approx(0.75)}
    assert reading.attainment == {"TimeToFirstTokenP95": pytest.approx(0.9)}


def test_few_requests_are_looked_at_for_longer() -> None:
    """Five requests of the last minute say little: three minutes of them are read."""
    both = buckets("fast", b1=5, inf=5) | buckets("steady", b0_5=19, b1=19, inf=19)
    traffic = read(samples(), histograms=both).traffic

    assert traffic.latencies["TimeToFirstTokenP95"] == pytest.approx(0.475)


def test_no_request_is_no_latency() -> None:
    traffic = read(samples(), histograms=buckets("fast", b1=0, inf=0)).traffic

    assert traffic.latencies == {}


@cases(
    "labels",
    {
        "a-list": ["pod"],
        "a-list-in-a-label": {"pod": "a", PART: ["running"]},
        "an-object-in-a-label": {"pod": "a", PART: "running", "namespace": {}},
    },
)
def test_labels_that_cannot_be_are_reported(labels: Any) -> None:
    """What is no label of Prometheus is an answer that cannot be used, in a sentence."""
    with pytest.raises(MetricsError, match="labels are not texts"):
        by_pod(read_vector(vector((labels, "1"))), {})


def test_a_bucket_without_a_bound_is_left_out() -> None:
    found = buckets("fast", b1=5)
    odd = [
        Sample({**found["TimeToFirstToken_fast"][0].labels, "le": le}, 9.0) for le in ("x", "NaN")
    ]
    series = by_pod([], {"TimeToFirstToken_fast": [*odd, *found["TimeToFirstToken_fast"]]})

    assert series["demo", "a"].buckets == {"TimeToFirstToken_fast": {1.0: 5.0}}


def test_a_number_of_400_digits_is_no_value() -> None:
    huge = {"data": {"resultType": "vector", "result": [{"metric": {}, "value": [0, 10**400]}]}}
    with pytest.raises(MetricsError, match="without values"):
        read_vector(huge)


def test_a_pod_that_answers_nan_counts_like_the_others() -> None:
    """NaN is no load: of one pod it is a pod that is not known, of all pods nothing is known."""
    pods = [replace(READY, name=name, uid=name) for name in "ab"]
    well, nan = (
        {**VALUES, "accepted_fast": text, "accepted_steady": text} for text in (2.0, "NaN")
    )

    def reported(**values: dict[str, Any]) -> Reading:
        rows = [
            ({"namespace": "demo", "pod": pod, PART: part}, str(value))
            for pod, known in values.items()
            for part, value in known.items()
        ]
        return read(read_vector(vector(*rows)), *pods)

    one, every = reported(a=well, b=nan), reported(a=nan, b=nan)

    assert (one.traffic.in_flight, one.traffic.fast.requests) == (8.0, 4.0)
    assert every.traffic is None


def test_what_is_no_number_is_left_out() -> None:
    found = read_vector(vector(({"a": "1"}, "NaN"), ({"a": "2"}, "+Inf"), ({"a": "3"}, "0.5")))

    assert [(one.labels["a"], one.value) for one in found] == [("3", 0.5)]
