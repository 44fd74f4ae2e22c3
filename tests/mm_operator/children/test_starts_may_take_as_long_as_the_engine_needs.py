"""A server may take as long to start as its engine needs."""

from mm_operator.children.serving_pod import LEAST_START_SECONDS, MOST_START_SECONDS, start_seconds
from support.cases import cases


@cases(
    "host_bytes expected",
    {
        "nothing": (0, LEAST_START_SECONDS),
        "seven-billion-parameters": (14 * 10**9, LEAST_START_SECONDS),
        "seventy-billion-parameters": (140 * 10**9, 600 + 7000),
        "more-than-a-client-waits-for": (10**13, MOST_START_SECONDS),
    },
)
def test_by_bytes(host_bytes: int, expected: int) -> None:
    assert expected == start_seconds(host_bytes)
