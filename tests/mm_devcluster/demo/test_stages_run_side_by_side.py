"""Stages start as soon as what they need is done; a failure stops what has not begun."""

from threading import Event

import pytest

from mm_devcluster.demo.graph import Report, Stage, State, Update, check_graph, run_stages
from support.cases import cases

DEADLINE = 60.0  # seconds until a test that waits for another stage gives up


def quick(_report: Report) -> str:
    return "ok"


def fail(_report: Report) -> str:
    raise ValueError("no such thing\nsecond line")


def test_stages_without_order_overlap() -> None:
    here, there = Event(), Event()

    def first(_report: Report) -> str:
        here.set()
        return "met" if there.wait(DEADLINE) else "alone"

    def second(_report: Report) -> str:
        there.set()
        return "met" if here.wait(DEADLINE) else "alone"

    updates: list[Update] = []
    failures = run_stages((Stage("a", "A", first), Stage("b", "B", second)), updates.append)
    ends = {update.key: update.detail for update in updates if update.state is State.DONE}
    assert (failures, ends) == ((), {"a": "met", "b": "met"})


def test_a_stage_waits_for_all_it_needs() -> None:
    order: list[str] = []

    def work(name: str) -> Stage:
        def run(_report: Report) -> str:
            order.append(name)
            return ""

        return Stage(name, name, run, {"c": ("a", "b"), "d": ("c",)}.get(name, ()))

    run_stages([work(name) for name in "abcd"], lambda _: None)
    assert (sorted(order[:2]), order[2:]) == (["a", "b"], ["c", "d"])


def test_a_failure_stops_what_has_not_begun() -> None:
    updates: list[Update] = []
    stages = (Stage("a", "A", fail), Stage("b", "B", quick, ("a",)))
    failures = run_stages(stages, updates.append)
    states = [(update.key, update.state, update.detail) for update in updates]
    assert [failure.stage.key for failure in failures] == ["a"]
    assert states == [
        ("a", State.RUNNING, ""),
        ("a", State.FAILED, "no such thing"),
        ("b", State.SKIPPED, ""),
    ]


def test_two_failures_are_both_reported() -> None:
    started = Event()

    def late(_report: Report) -> str:
        started.wait(DEADLINE)
        raise OSError("second")

    def early(_report: Report) -> str:
        started.set()
        raise OSError("first")

    failures = run_stages((Stage("a", "A", late), Stage("b", "B", early)), lambda _: None)
    assert sorted(str(failure.error) for failure in failures) == ["first", "second"]


@cases(
    "stages message",
    {
        "twice": ((Stage("a", "", quick), Stage("a", "", quick)), "two stages"),
        "unknown": ((Stage("a", "", quick, ("b",)),), "needs 'b'"),
        "later": ((Stage("a", "", quick, ("b",)), Stage("b", "", quick)), "needs 'b'"),
    },
)
def test_a_table_that_could_never_finish_is_refused(
    stages: tuple[Stage, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        check_graph(stages)
