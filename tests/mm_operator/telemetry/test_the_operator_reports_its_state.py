"""Metrics, health and logs of the operator."""

import asyncio
import json
import logging
import socket
import sys
import threading
import time
from functools import partial

import aiohttp
import pytest

from mm_api.metrics import OPERATOR_METRICS
from mm_operator.status.series import Sample
from mm_operator.telemetry.event_loop import INTERVAL_SECONDS, watch_loop
from mm_operator.telemetry.logs import KeyedFormatter, current_key
from mm_operator.telemetry.metrics import Metrics
from mm_operator.telemetry.server import serve
from support.cases import cases
from support.eventually import eventually_async


def test_every_metric_of_the_catalogue_is_there() -> None:
    metrics = Metrics()
    metrics.reconciled("ok", 0.1)
    metrics.requested("get", "jobs", "200")
    metrics.models(1, 3)
    text = metrics.snapshot()().decode()

    for metric in OPERATOR_METRICS:
        assert f"# HELP {metric.name.removesuffix('_total')}" in text
    assert 'mm_operator_api_requests_total{code="200",resource="jobs",verb="get"} 1.0' in text
    assert 'mm_operator_models{ready="false"} 2.0' in text
    assert "process_resident_memory_bytes" in text


async def test_probes_come_by_either_family() -> None:
    """A pod may have IPv4, IPv6 or both."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no ::1")
    nothing = partial(str)
    runner, port = await serve(0, ready=nothing, metrics=Metrics().snapshot)
    found = []
    try:
        async with aiohttp.ClientSession() as session:
            for host in ("127.0.0.1", "[::1]"):
                async with session.get(f"http://{host}:{port}/healthz") as answer:
                    found.append(answer.status)
    finally:
        await runner.cleanup()
    assert found == [200, 200]


@cases(
    "path status words",
    {
        "alive": ("/healthz", 200, "ok"),
        "not-ready-says-why": ("/readyz", 503, "pods: not listed yet"),
        "metrics": ("/metrics", 200, "mm_operator_leader 0.0"),
        "unknown-path": ("/other", 404, "Not Found"),
    },
)
async def test_http_answers(path: str, status: int, words: str) -> None:
    runner, port = await serve(
        0,
        ready=lambda: "pods: not listed yet",
        metrics=Metrics().snapshot,
        address="127.0.0.1",
    )
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}{path}") as answer,
        ):
            assert answer.status == status
            assert words in await answer.text()
    finally:
        await runner.cleanup()


async def test_metrics_are_written_beside_the_event_loop() -> None:
    """The text of a thousand models takes a tenth of a second: another thread writes it."""
    writers: list[str] = []

    def write() -> bytes:
        writers.append(threading.current_thread().name)
        return b""

    runner, port = await serve(0, ready=str, metrics=lambda: write, address="127.0.0.1")
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/metrics") as answer,
        ):
            assert answer.status == 200
    finally:
        await runner.cleanup()
    assert len(writers) == 1
    assert writers[0] != threading.current_thread().name


def test_a_snapshot_holds_what_was_so() -> None:
    """What changes while the text is written is in the next one: the writer reads no live cache."""
    metrics, models = Metrics(), [Sample("mm_model_replicas", ("demo", "tiny", "ready"), 1.0)]
    metrics.collect_models(lambda: models)
    write = metrics.snapshot()
    models.clear()

    assert "mm_model_replicas{" in write().decode()
    assert "mm_model_replicas{" not in metrics.snapshot()().decode()


def test_log_lines_are_json_with_the_key() -> None:
    token = current_key.set("demo/llava")
    try:
        raise ValueError("broken\nin two")  # noqa: TRY301  # something to log
    except ValueError:
        record = logging.LogRecord("mm", logging.ERROR, "", 0, "no %s", ("luck",), sys.exc_info())
        line = KeyedFormatter().format(record)
    finally:
        current_key.reset(token)
    parsed = json.loads(line)

    assert "\n" not in line
    assert (parsed["message"], parsed["key"], parsed["level"]) == ("no luck", "demo/llava", "error")
    assert "ValueError: broken" in parsed["error"]


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
    for seconds in (0.04, 0.2, 7.0):
        metrics.histograms["mm_operator_event_loop_lag_seconds"].observe(seconds)
    text = metrics.snapshot()().decode()

    assert 'mm_operator_event_loop_lag_seconds_bucket{le="0.05"} 1.0' in text
    assert 'mm_operator_event_loop_lag_seconds_bucket{le="0.25"} 2.0' in text
    assert "mm_operator_event_loop_lag_seconds_count 3.0" in text
