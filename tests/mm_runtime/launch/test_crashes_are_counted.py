"""A server that dies is started again, with pauses, and not for ever."""

import pytest

from mm_runtime.launch.restarts import Crashes


def crashes(*times: float) -> Crashes:
    """Return what is known after deaths at these seconds."""
    known = Crashes()
    for time in times:
        known = known.after(time)
    return known


@pytest.mark.parametrize(
    ("times", "delay", "exhausted"),
    [
        pytest.param((10,), 1, False, id="first"),
        pytest.param((10, 20), 2, False, id="second"),
        pytest.param((10, 20, 309), 4, True, id="third-within-five-minutes"),
        pytest.param((10, 20, 310), 2, False, id="the-first-is-forgotten"),
        pytest.param((0, 400, 800, 1200), 1, False, id="far-apart"),
    ],
)
def test_deaths_within_five_minutes_count(
    times: tuple[float, ...], delay: float, *, exhausted: bool
) -> None:
    """Each death that counts doubles the pause, and the third ends the container."""
    found = crashes(*times)
    assert (delay, exhausted) == (found.delay_seconds, found.exhausted)
