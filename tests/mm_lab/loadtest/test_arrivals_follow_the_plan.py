"""Requests are due when the plan says: seeded, at the rate, as bursty as given, as in the trace."""

import statistics
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm_lab.loadtest.arrivals import Due, Window, poisson, windows
from mm_lab.loadtest.trace import TraceError, read_trace
from support.cases import cases


def gaps(plan: list[Due]) -> list[float]:
    return [later.at - earlier.at for earlier, later in pairwise(plan)]


def test_poisson_has_its_rate_and_its_spread() -> None:
    """1,000 s at 10 a second are about 10,000 requests, and gaps vary as much as they last."""
    plan = list(poisson(10, 1000, seed=1))
    between = gaps(plan)

    assert len(plan) == pytest.approx(10_000, rel=0.05)
    assert statistics.stdev(between) / statistics.mean(between) == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("variation", [0.3, 1.0, 3.0], ids=["even", "poisson", "bursts"])
def test_windows_are_as_bursty_as_requested(variation: float) -> None:
    plan = list(windows([Window(0, 20, variation)], 2000, seed=2))
    between = gaps(plan)

    assert len(plan) == pytest.approx(40_000, rel=0.05)
    assert statistics.stdev(between) / statistics.mean(between) == pytest.approx(variation, rel=0.1)


def test_a_quiet_window_does_not_hold_back_the_next() -> None:
    """After an hour at one request in a thousand seconds the busy window is busy at once."""
    plan = list(windows([Window(0, 0.001), Window(3600, 100)], 3700, seed=3))
    busy = [due.at for due in plan if due.at >= 3600]

    assert busy[0] < 3601
    assert len(busy) == pytest.approx(10_000, rel=0.05)


@given(
    st.floats(0.1, 50), st.floats(0.1, 60), st.integers(0, 10), st.floats(0, 4), st.floats(0, 50)
)
def test_plans_are_in_order_and_within_the_run(
    rate: float, seconds: float, seed: int, variation: float, other: float
) -> None:
    stretches = [Window(0, rate, variation), Window(seconds / 3, other), Window(seconds / 2, rate)]
    for plan in (list(poisson(rate, seconds, seed)), list(windows(stretches, seconds, seed))):
        times = [due.at for due in plan]
        assert times == sorted(times)
        assert all(0 <= at < seconds for at in times)
    assert list(poisson(rate, seconds, seed)) == list(poisson(rate, seconds, seed))


def written(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_single_requests_are_replayed_in_time(tmp_path: Path) -> None:
    """Each line is a request at its time from the first one; empty fields are drawn later."""
    path = written(tmp_path, "seconds,images,max_tokens\n100,2,16\n101,,\n108,0,8\n130,1,1\n")
    plan = list(read_trace(path, speed=2, scale=1, seconds=10, seed=1))

    assert plan == [Due(0, images=2, max_tokens=16), Due(0.5), Due(4, images=0, max_tokens=8)]


def test_rates_are_replayed_in_shape(tmp_path: Path) -> None:
    path = written(tmp_path, "0,0.5,0.6,Gamma,3,0.4\n600,2,1.2,Weibull,1,1\n1200,0,0,,,\n")
    plan = list(read_trace(path, speed=60, scale=0.5, seconds=60, seed=1))
    first, second = (sum(start <= due.at < start + 10 for due in plan) for start in (0, 10))

    assert first == pytest.approx(600 * 0.5 * 0.5, rel=0.2)
    assert second == pytest.approx(600 * 2 * 0.5, rel=0.2)
    assert max(due.at for due in plan) < 20


@cases(
    "text message",
    {
        "empty": ("", "is empty"),
        "no-number": ("seconds\n1\nx\n", ":3: seconds is 'x': expected a number"),
        "not-sorted": ("seconds\n5\n4\n", ":3: 4 s is before the line above"),
        "no-rate": ("0,fast\n", ":1: requests per second is 'fast'"),
        "negative": ("0,-1\n", ":1: requests per second is '-1'"),
        "infinite": ("0,inf\n", ":1: requests per second is 'inf'"),
        "nan": ("seconds\nnan\n", ":2: seconds is 'nan'"),
    },
)
def test_what_is_no_trace_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=message):
        list(read_trace(written(tmp_path, text), speed=1, scale=1, seconds=60, seed=1))


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_bytes(b"seconds\n\xff\n")
    with pytest.raises(TraceError, match=r"trace\.csv cannot be read as a CSV file"):
        list(read_trace(trace, speed=1, scale=1, seconds=60, seed=1))


def test_single_requests_cannot_be_multiplied(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be multiplied"):
        list(read_trace(written(tmp_path, "seconds\n1\n"), speed=1, scale=2, seconds=9, seed=1))
