"""The bench's verdict compares policies on the same requests, seed by seed."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from support.cases import cases

FOLDER = Path(__file__).parents[3] / "bench" / "autoscaling"


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module that writes the tables; its neighbours are plain modules beside it."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    module = importlib.import_module("report")
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(FOLDER)):
            monkeypatch.delitem(sys.modules, name)
    return module


def rows(policy: str, target: str, *runs: tuple[float, float]) -> list[dict[str, object]]:
    """Return result rows of one setting: hours and the share kept of each seed."""
    return [
        {
            "kind": "frontier",
            "where": "trace",
            "policy": policy,
            "target": target,
            "seed": seed,
            "attainment": kept,
            "replica_hours": hours,
            "first_token_p99_seconds": 1.0,
            "changes": 0,
            "reversals": 0,
            "bad_minutes": 0,
            "lowest_ready": 1,
        }
        for seed, (hours, kept) in enumerate(runs, start=1)
    ]


LEAN = ((5.0, 0.90), (6.0, 0.80), (7.0, 0.95))
RICH = ((7.0, 0.94), (8.0, 0.84), (9.0, 0.99))


@cases(
    "expected other",
    {
        "a-little-more-in-every-seed": (
            (
                "1 settings of others at a cost of ours, 0 keep less and 1 keep more: "
                "KPA 8 (+0.10 ± 0.00 at 7.00 h)"
            ),
            ((6.0, 0.921), (7.0, 0.821), (8.0, 0.971)),
        ),
        "more-in-one-seed-less-in-another": (
            "1 settings of others at a cost of ours, 0 keep less and 0 keep more",
            ((6.0, 0.91), (7.0, 0.84), (8.0, 0.97)),
        ),
        "less-in-every-seed": (
            "1 settings of others at a cost of ours, 1 keep less and 0 keep more",
            ((6.0, 0.91), (7.0, 0.81), (8.0, 0.96)),
        ),
        "cheaper-than-all-of-ours": (
            "0 settings of others at a cost of ours",
            ((4.0, 0.91), (7.0, 0.81), (8.0, 0.96)),
        ),
    },
)
def test_others_are_compared_at_their_cost(
    report: ModuleType, expected: str, other: tuple[tuple[float, float], ...]
) -> None:
    """Seeds differ by far more than policies: a tenth of a point in each of them is a difference.

    Ours is interpolated between its settings.
    """
    ours = report.runs.OURS
    found = report.points_of(
        rows(ours, "80%", *LEAN) + rows(ours, "70%", *RICH) + rows("KPA", "8", *other),
        "frontier",
        {1, 2, 3},
    )

    assert expected in report.verdicts(found)[0]


def test_what_is_beaten_is_no_frontier(report: ModuleType) -> None:
    assert report.envelope([(7.0, 99.0), (5.0, 98.0), (6.0, 97.0), (8.0, 99.0)]) == [
        (5.0, 98.0),
        (7.0, 99.0),
    ]


def test_floors_are_no_advantage_of_one_policy(report: ModuleType) -> None:
    """Policies that can have a floor have the same ones; a constant has none, it is one."""
    floors: dict[str, set[int]] = {}
    for one in report.runs.SWEPT:
        floors.setdefault(one.policy, set()).add(one.above)

    runs = report.runs
    moving = set(runs.FLOORED)
    assert {name for name, found in floors.items() if len(found) > 1} == moving
    assert all(floors[name] == {0, *runs.ABOVE} for name in moving)
    assert len({(one.policy, one.target) for one in runs.SWEPT}) == len(runs.SWEPT)


def test_a_row_of_the_best_reports_how_many_it_stands_for(report: ModuleType) -> None:
    found = [
        *rows("KPA", "8", *LEAN),
        *rows("KPA", "9", *LEAN),
        *rows("static", "5", *LEAN),
        *rows("static", "6", *LEAN),
        *rows("static", "7", *RICH),
    ]
    points = report.points_of(found, "frontier", {1, 2, 3})["trace"]

    assert [line.split(" | ")[1] for line in report.best(points)[2:]] == [
        "8 (also 9; static 5 and 1 more)",
        "7",
    ]
