"""A server that dies is started again, with pauses, and not for ever."""

from mm_runtime.launch.serve import Crashes
from support.cases import cases


def crashes(*times: float) -> Crashes:
    known = Crashes()
    for time in times:
        known = known.after(time)
    return known


@cases(
    "times delay exhausted",
    {
        "first": ((10,), 1, False),
        "second": ((10, 20), 2, False),
        "third-within-five-minutes": ((10, 20, 309), 4, True),
        "the-first-is-forgotten": ((10, 20, 310), 2, False),
        "far-apart": ((0, 400, 800, 1200), 1, False),
    },
)
def test_deaths_within_five_minutes_count(
    times: tuple[float, ...], delay: float, *, exhausted: bool
) -> None:
    found = crashes(*times)
    assert (delay, exhausted) == (found.delay_seconds, found.exhausted)
