"""A server's startup probe gives it the time that its engine's bytes take from a slow store."""

import pytest

from mm_operator.children.containers import (
    LEAST_START_SECONDS,
    MOST_START_SECONDS,
    start_seconds,
)


@pytest.mark.parametrize(
    ("host_bytes", "expected"),
    [
        pytest.param(0, LEAST_START_SECONDS, id="nothing"),
        pytest.param(14 * 10**9, LEAST_START_SECONDS, id="seven-billion-parameters"),
        pytest.param(140 * 10**9, 600 + 7000, id="seventy-billion-parameters"),
        pytest.param(10**13, MOST_START_SECONDS, id="more-than-anybody-waits-for"),
    ],
)
def test_seconds(host_bytes: int, expected: int) -> None:
    """Never less than a small engine gets, never more than six hours, in between by bytes."""
    assert expected == start_seconds(host_bytes)
