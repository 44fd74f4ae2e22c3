"""What pods write and who may create Events says is requested with a bound, and kept up to one."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubernetes.aio.client import ApiClient, Configuration

from mm_api.documents.build_result import PROGRESS_MARK
from mm_operator.cluster.cache import JOB_NAME_LABEL, Cache
from mm_operator.cluster.client import MESSAGE_LIMIT, Client
from mm_operator.cluster.pod_diagnostics import PodDiagnostics
from mm_operator.cluster.resources import JOB, POD
from support.cases import cases
from support.http_servers import Exchange, LocalServer, serve_local

MADE = "2026-01-02T03:04:05Z"
NOW = datetime(2026, 1, 2, 3, 14, 5, tzinfo=UTC)
ENGINE_JOB = "engine-abc-1"
FAILED = {
    "phase": "Failed",
    "containerStatuses": [{"name": "build", "state": {"terminated": {"exitCode": 1}}}],
}
RUNS = {
    "phase": "Running",
    "containerStatuses": [{"name": "build", "state": {"running": {"startedAt": MADE}}}],
}


def job() -> dict[str, Any]:
    return {
        "metadata": {
            "name": ENGINE_JOB,
            "namespace": "demo",
            "uid": "job",
            "resourceVersion": "1",
            "creationTimestamp": MADE,
        }
    }


def pod(status: dict[str, Any]) -> dict[str, Any]:
    named = {"name": f"{ENGINE_JOB}-x", "namespace": "demo", "uid": "pod", "resourceVersion": "2"}
    return {"metadata": {**named, "labels": {JOB_NAME_LABEL: ENGINE_JOB}}, "status": status}


async def gathered(local: LocalServer, *pods: dict[str, Any]) -> PodDiagnostics:
    cache = Cache()
    cache.put(JOB.kind, job())
    for one in pods:
        cache.put(POD.kind, one)
    client = Client(
        ApiClient(Configuration(host=f"http://127.0.0.1:{local.port}")), timeout_seconds=60
    )
    diagnostics = PodDiagnostics(client, cache)
    found = cache.find(JOB.kind, "demo", ENGINE_JOB)
    try:
        await diagnostics.gather([found], [], NOW + timedelta(seconds=1))
    finally:
        await client.close()
    return diagnostics


@cases(
    "status limit", {"tail-of-a-failure": (FAILED, 10 * 8192), "running-build": (RUNS, 512 * 1024)}
)
async def test_a_log_is_requested_with_a_bound(status: dict[str, Any], limit: int) -> None:
    """A line has no bound of its own: the API server is queried to cut."""

    async def answer(exchange: Exchange) -> None:
        await exchange.answer(200, b"a line\n")

    async with serve_local(answer) as local:
        await gathered(local, pod(status))

    requested = [
        parse_qs(urlsplit(one.path).query) for one in local.exchanges if "/log" in one.path
    ]
    assert [one.get("limitBytes") for one in requested] == [[str(limit)]]


async def test_a_line_of_progress_without_end_is_left_out() -> None:
    """The last line of progress is kept for each running build, so it has a bound."""

    async def answer(exchange: Exchange) -> None:
        await exchange.answer(
            200, f"{PROGRESS_MARK} short\n{PROGRESS_MARK} {'x' * 100_000}\n".encode()
        )

    async with serve_local(answer) as local:
        diagnostics = await gathered(local, pod(RUNS))

    assert dict(diagnostics.progress) == {"pod": f"{PROGRESS_MARK} short"}


async def test_events_without_end_are_not_read_to_the_end() -> None:
    """A few pages of a few Events are read about a Job, and a message is cut."""

    async def answer(exchange: Exchange) -> None:
        limit = int(parse_qs(urlsplit(exchange.path).query)["limit"][0])
        number = len(local.exchanges)
        items = [
            {"metadata": {"resourceVersion": str(number * 1000 + place)}, "message": "no " * 1000}
            for place in range(limit)
        ]
        body = {"metadata": {"continue": "more" if number < 50 else ""}, "items": items}
        await exchange.answer(
            200, json.dumps(body).encode(), **{"content-type": "application/json"}
        )

    async with serve_local(answer) as local:
        diagnostics = await gathered(local)

    limits = [int(parse_qs(urlsplit(one.path).query)["limit"][0]) for one in local.exchanges]
    assert (max(limits) <= 10, sum(limits) <= 50) == (True, True)
    assert len(diagnostics.blocked("job")) <= MESSAGE_LIMIT
    assert diagnostics.blocked("job").startswith("no no")


async def test_events_that_cannot_be_read_stop_nothing() -> None:
    """They say why something waits: without them the model is reconciled all the same."""

    async def answer(exchange: Exchange) -> None:
        await exchange.answer(403, b"{}")

    async with serve_local(answer) as local:
        diagnostics = await gathered(local)

    assert [len(local.exchanges), diagnostics.blocked("job")] == [1, ""]
