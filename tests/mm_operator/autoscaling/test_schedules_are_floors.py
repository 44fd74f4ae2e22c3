"""Schedules raise the floor at their times, in their time zone."""

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

from mm_operator.autoscaling import Objectives, Observation, ScalingReason, ScheduleFloor, decide
from mm_operator.autoscaling.schedule import active, floor_of, problem_of
from mm_operator.autoscaling.state import fresh
from support.cases import cases
from support.ticks import SIMPLE, one, traffic

HOUR = 3600.0
WORK = ScheduleFloor("work", "0 8 * * 1-5", 10 * HOUR, 6, "Europe/Berlin")


def berlin(day: int, hour: int, minute: int = 0, month: int = 11) -> float:
    """Return Unix seconds of a local time; 2 November 2026 is a Monday."""
    return datetime(2026, month, day, hour, minute, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()


@cases(
    "expected at",
    {
        "before": (False, berlin(2, 7, 59)),
        "first-minute": (True, berlin(2, 8)),
        "last-minute": (True, berlin(2, 17, 59)),
        "after": (False, berlin(2, 18)),
        "saturday": (False, berlin(7, 12)),
        "summer-time": (True, berlin(1, 8, month=7)),
    },
)
def test_a_schedule_holds_from_its_start_for_its_duration(expected: bool, at: float) -> None:  # noqa: FBT001 (the expected value)
    """Eight to six on working days, by the clock of the place."""
    assert expected is active(WORK, at)


def test_a_duration_is_elapsed_time() -> None:
    """Over the change to winter time a schedule of four hours lasts four hours, not five."""
    night = ScheduleFloor("night", "0 1 * * *", 4 * HOUR, 2, "Europe/Berlin")

    assert [active(night, berlin(25, hour, 30, 10)) for hour in (3, 4)] == [True, False]


def test_the_highest_of_several_holds() -> None:
    more = ScheduleFloor("sale", "0 0 2 11 *", 24 * HOUR, 9, "Europe/Berlin")
    found = floor_of((WORK, more), berlin(2, 12))

    assert found is more


def test_a_schedule_raises_the_replicas() -> None:
    always = replace(SIMPLE, schedules=(ScheduleFloor("always", "* * * * *", HOUR, 6),))
    decision = one(2, traffic(0.4), objectives=always)

    assert (decision.replicas, decision.reason) == (6, ScalingReason.SCHEDULE)


def test_a_schedule_holds_in_silence() -> None:
    always: Objectives = replace(SIMPLE, schedules=(ScheduleFloor("a", "* * * * *", HOUR, 6),))
    silent = Observation(at=berlin(2, 12), replicas=2, ready=2)

    assert decide(silent, fresh(silent.at, 2), always)[0].replicas == 6


@cases(
    "expected schedule",
    {
        "right": ("", WORK),
        "hour-25": ("is not a cron expression", replace(WORK, cron="0 25 * * *")),
        "words": ("is not a cron expression", replace(WORK, cron="daily")),
        "zone": ("is not a time zone", replace(WORK, time_zone="Mars/Olympus")),
        "path": ("is not a time zone", replace(WORK, time_zone="../etc/passwd")),
    },
)
def test_what_is_wrong_is_reported(expected: str, schedule: ScheduleFloor) -> None:
    problem = problem_of(schedule)

    assert expected in problem
    assert bool(expected) is bool(problem)
    assert not (problem and active(schedule, berlin(2, 12)))
