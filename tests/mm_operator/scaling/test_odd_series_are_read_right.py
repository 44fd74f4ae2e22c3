"""What a real Prometheus makes of our queries when series are odd: resets, gaps, doubles, ends."""

from pathlib import Path

import yaml

from mm_operator.scaling.queries import latency_queries, matchers, traffic_query
from support.cases import cases
from support.prometheus import promtool

SCRAPE = "15s"
REQUESTED_AT = "10m"
"""Sample 40; the steady window of 180 s begins with sample 29, the fast one of 60 s with 37."""

ACCEPTED = 'mm_requests_accepted_total{namespace="demo",pod="tiny-a"%s}'
RUNNING = 'mm_requests_running{namespace="demo",pod="tiny-a"%s}'
ONE_IN_FOUR_SECONDS = "0+3.75x60"
SCOPE = matchers([("demo", "tiny-a")], {})


def part(name: str, scope: str = SCOPE) -> str:
    parts = traffic_query(scope).split("\nor ")
    return next(one for one in parts if f'"{name}", ""' in one)


def expect(
    folder: Path, query: str, series: dict[str, str], samples: list[dict[str, object]]
) -> str:
    """Query Prometheus' own engine; return what it says is wrong, empty when nothing is."""
    test = {
        "interval": SCRAPE,
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": query, "eval_time": REQUESTED_AT, "exp_samples": samples}],
    }
    file = folder / "case.yaml"
    file.write_text(yaml.safe_dump({"evaluation_interval": SCRAPE, "tests": [test]}))
    done = promtool("test", "rules", str(file))
    return "" if done.returncode == 0 else done.stdout + done.stderr


def sample(name: str, value: float) -> dict[str, object]:
    return {"labels": f'{{mm_part="{name}",namespace="demo",pod="tiny-a"}}', "value": value}


@cases(
    "series per_second",
    {
        "even": ({ACCEPTED % "": "0+15x60"}, 1.0),
        "restarted-in-the-window": ({ACCEPTED % "": "0+15x34 15+15x26"}, 1.0),
        "scrapes-failed": ({ACCEPTED % "": "0+15x30 _x4 525+15x25"}, 1.0),
        "less-than-one-a-second": ({ACCEPTED % "": ONE_IN_FOUR_SECONDS}, 0.25),
        "scraped-by-two-jobs": (
            {ACCEPTED % ',job="a"': "0+15x60", ACCEPTED % ',job="b"': "0+15x60"},
            1.0,
        ),
        "strangers": (
            {
                ACCEPTED % "": "0+15x60",
                'mm_requests_accepted_total{namespace="other",pod="tiny-a"}': "0+900x60",
                'mm_requests_accepted_total{namespace="demo",pod="tiny-abc"}': "0+900x60",
            },
            1.0,
        ),
    },
)
def test_arrivals_are_counted_once_and_completely(
    series: dict[str, str], per_second: float, tmp_path: Path
) -> None:
    name = "accepted_steady"
    assert expect(tmp_path, part(name), series, [sample(name, per_second)]) == ""


def test_scrapes_of_a_minute_leave_the_longer_window(tmp_path: Path) -> None:
    """At Prometheus' own default a minute has one sample, three minutes have a rate."""
    series = {ACCEPTED % "": "0 " + "_x3 ".join(f"{60 * number} " for number in range(1, 16))}
    for name, expected in (("accepted_fast", []), ("accepted_steady", [1.0])):
        samples = [sample(name, value) for value in expected]
        assert expect(tmp_path, part(name), series, samples) == ""


def test_series_of_another_cluster_are_left_out(tmp_path: Path) -> None:
    """`matchLabels` separates two clusters of one Prometheus that have pods of the same names."""
    query = part("accepted_steady", matchers([("demo", "tiny-a")], {"cluster": "here"}))
    series = {ACCEPTED % ',cluster="here"': "0+15x60", ACCEPTED % ',cluster="there"': "0+900x60"}
    assert expect(tmp_path, query, series, [sample("accepted_steady", 1.0)]) == ""


@cases(
    "name values",
    {
        "gone": ("running", "3x30 stale"),
        "not-scraped-any-more": ("running", "3x30 _x30"),
        "gone-a-moment-ago": ("sampled_at", "3x39 stale"),
    },
)
def test_what_ended_has_no_value(name: str, values: str, tmp_path: Path) -> None:
    assert expect(tmp_path, part(name), {RUNNING % "": values}, []) == ""


def test_a_restart_hides_no_latency(tmp_path: Path) -> None:
    """Buckets begin again with the process; the minute's requests are counted all the same."""
    query = latency_queries(SCOPE, ["TimeToFirstToken"])["TimeToFirstToken_steady"]
    bucket = 'mm_time_to_first_token_seconds_bucket{namespace="demo",pod="tiny-a",le="%s"}'
    series = {bucket % "0.5": "0+15x34 15+15x26", bucket % "+Inf": "0+30x34 30+30x26"}
    labels = '{namespace="demo",pod="tiny-a",le="%s"}'
    expected: list[dict[str, object]] = [
        {"labels": labels % "0.5", "value": 180},
        {"labels": labels % "+Inf", "value": 360},
    ]
    assert expect(tmp_path, query, series, expected) == ""


def test_a_wrong_expectation_is_noticed(tmp_path: Path) -> None:
    """The engine really compares: without this the cases above might say nothing."""
    name = "accepted_steady"
    series = {ACCEPTED % "": "0+15x60"}
    assert "exp" in expect(tmp_path, part(name), series, [sample(name, 2.0)])
