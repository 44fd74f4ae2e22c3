"""A server may take as long to start as its engine needs: by bytes first, then as was measured."""

import pytest

from mm_operator.plan.revision import MOST_SECONDS
from mm_operator.plan.starts import LEAST_START_SECONDS, start_seconds

_SEVENTY = 140 * 10**9


@pytest.mark.parametrize(
    ("host_bytes", "expected"),
    [
        pytest.param(0, LEAST_START_SECONDS, id="nothing"),
        pytest.param(14 * 10**9, LEAST_START_SECONDS, id="seven-billion-parameters"),
        pytest.param(_SEVENTY, 600 + 7000, id="seventy-billion-parameters"),
        pytest.param(10**13, MOST_SECONDS, id="more-than-a-client-waits-for"),
    ],
)
def test_by_bytes(host_bytes: int, expected: int) -> None:
    """Never less than a small engine gets, never more than six hours, in between by bytes."""
    assert expected == start_seconds(host_bytes)


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        pytest.param(4.0, 600, id="what-does-not-grow-with-the-engine"),
        pytest.param(300.0, 1500, id="shorter-than-by-bytes"),
        pytest.param(2000.0, 10_000, id="longer-than-by-bytes"),
        pytest.param(10_000.0, MOST_SECONDS, id="more-than-a-client-waits-for"),
    ],
)
def test_as_measured(measured: float, expected: int) -> None:
    """Five times the slowest start that was seen, whatever the bytes say, within bounds."""
    assert expected == start_seconds(_SEVENTY, measured)
