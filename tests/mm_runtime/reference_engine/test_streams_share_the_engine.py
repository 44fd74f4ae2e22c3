"""Concurrent streams of the real server interleave, and steps are counted."""

import httpx
import pytest

from support.ensemble import DEADLINE_SECONDS, Ensemble, order_of_streams
from support.eventually import eventually
from support.served import Served

pytestmark = pytest.mark.triton

STREAMS = 8


def _metric(served: Served, name: str) -> float:
    page = httpx.get(f"http://127.0.0.1:{served.metrics}/metrics", timeout=60).text
    values = [line.rsplit(" ", 1)[1] for line in page.splitlines() if line.startswith(name)]
    assert len(values) == 1, page
    return float(values[0])


def test_concurrent_streams_interleave(served: Served) -> None:
    order = order_of_streams(served.grpc_url, "ensemble", STREAMS)
    first_end = min(len(order) - order[::-1].index(number) - 1 for number in range(STREAMS))
    last_start = max(order.index(number) for number in range(STREAMS))
    assert last_start < first_end


def test_steps_are_counted_by_their_size(served: Served) -> None:
    """An answer of 30 tokens is 29 decoding steps of one request, or fewer of several."""
    name = "mm_decode_batch_requests_sum"
    before = _metric(served, name)
    with Ensemble(served.grpc_url) as ensemble:
        ensemble.query("Hello!", end_id=-1, min_tokens=30, max_tokens=30, stream=True)
    eventually(
        lambda: _metric(served, name) >= before + 29, seconds=DEADLINE_SECONDS, pause_seconds=0.1
    )
