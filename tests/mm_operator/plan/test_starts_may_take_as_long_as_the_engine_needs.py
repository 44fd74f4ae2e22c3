"""A server may take as long to start as its engine needs: by bytes first, then as was measured."""

from mm_operator.plan.records import MOST_SECONDS
from mm_operator.plan.starts import LEAST_START_SECONDS, start_seconds
from support.cases import cases

_SEVENTY = 140 * 10**9


@cases(
    "host_bytes expected",
    {
        "nothing": (0, LEAST_START_SECONDS),
        "seven-billion-parameters": (14 * 10**9, LEAST_START_SECONDS),
        "seventy-billion-parameters": (_SEVENTY, 600 + 7000),
        "more-than-a-client-waits-for": (10**13, MOST_SECONDS),
    },
)
def test_by_bytes(host_bytes: int, expected: int) -> None:
    assert expected == start_seconds(host_bytes)


@cases(
    "measured expected",
    {
        "what-does-not-grow-with-the-engine": (4.0, 600),
        "shorter-than-by-bytes": (300.0, 1500),
        "longer-than-by-bytes": (2000.0, 10_000),
        "more-than-a-client-waits-for": (10_000.0, MOST_SECONDS),
    },
)
def test_as_measured(measured: float, expected: int) -> None:
    """Five times the slowest start that was seen, whatever the bytes say, within bounds."""
    assert expected == start_seconds(_SEVENTY, measured)
