"""The lag of the event loop: what is due comes late while something else computes."""

import asyncio
import time

import pytest

from mm_operator.telemetry.lag import INTERVAL_SECONDS, watch_loop
from mm_operator.telemetry.metrics import Metrics
from support.eventually import eventually_async


async def test_a_long_stall_is_one_large_lag() -> None:
    """What came late is one observation of its entire length; what came in time is none."""
    moment, lags = [0.0], list[float]()
    lengths = iter((INTERVAL_SECONDS, INTERVAL_SECONDS + 5, INTERVAL_SECONDS / 2))

    async def sleep(_: float) -> None:
        length = next(lengths, None)
        if length is None:
            raise asyncio.CancelledError
        moment[0] += length

    with pytest.raises(asyncio.CancelledError):
        await watch_loop(lags.append, clock=lambda: moment[0], sleep=sleep)

    assert lags == pytest.approx([0, 5, 0])


async def test_a_blocked_loop_is_seen() -> None:
    lags: list[float] = []
    watch = asyncio.create_task(watch_loop(lags.append))
    await eventually_async(lambda: len(lags) > 1)

    time.sleep(0.3)  # noqa: ASYNC251  # the block is what is tested

    await eventually_async(lambda: max(lags) > 0.3 - 2 * INTERVAL_SECONDS)
    watch.cancel()


def test_lags_are_a_histogram_whose_bounds_are_the_goals() -> None:
    """Whether 99 % stay below 50 ms, and all below 250 ms, can be read from the buckets."""
    metrics = Metrics()
    metrics.lagged(0.04)
    metrics.lagged(0.2)
    metrics.lagged(7.0)
    text = metrics.snapshot()().decode()

    assert 'mm_operator_event_loop_lag_seconds_bucket{le="0.05"} 1.0' in text
    assert 'mm_operator_event_loop_lag_seconds_bucket{le="0.25"} 2.0' in text
    assert "mm_operator_event_loop_lag_seconds_count 3.0" in text
