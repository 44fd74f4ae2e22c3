"""Which schedules are active at a moment."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from mm_operator.autoscaling.objectives import ScheduleFloor


def problem_of(schedule: ScheduleFloor) -> str:
    """Return what is wrong with a schedule; empty when nothing is."""
    try:
        zone = ZoneInfo(schedule.time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        return (
            f"schedule {schedule.name!r}: {schedule.time_zone!r} is not a time zone: write a name "
            "of the IANA database, for example Europe/Berlin"
        )
    try:
        CronSim(schedule.cron, datetime.fromtimestamp(0, zone))
    except CronSimError as error:
        return (
            f"schedule {schedule.name!r}: {schedule.cron!r} is not a cron expression ({error}): "
            "write minute, hour, day of month, month and day of week, for example 0 8 * * 1-5"
        )
    return ""


def active(schedule: ScheduleFloor, at: float) -> bool:
    """Return whether the schedule's last start is not yet `duration_seconds` ago.

    A schedule that cannot be read requires nothing: admission reports it to its owner.
    """
    if problem_of(schedule):
        return False
    now = datetime.fromtimestamp(at, ZoneInfo(schedule.time_zone))
    # The search backwards excludes its own start: a minute later, this minute's start is found.
    search = CronSim(schedule.cron, now + timedelta(minutes=1), reverse=True)
    start = next((found for found in search if found <= now), None)
    if start is None:
        return False
    lasted = now.astimezone(UTC) - start.astimezone(UTC)
    return lasted.total_seconds() < schedule.duration_seconds


def floor_of(schedules: tuple[ScheduleFloor, ...], at: float) -> ScheduleFloor | None:
    """Return the active schedule with the most replicas, the first of several; `None`: none is."""
    standing = [schedule for schedule in schedules if active(schedule, at)]
    return max(standing, key=lambda schedule: schedule.replicas, default=None)
