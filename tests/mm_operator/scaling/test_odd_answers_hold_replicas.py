"""What cannot be read, of a Prometheus or of a status, ends no tick."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from mm_api import labels
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.models import ModelCache
from mm_operator.scaling.conflicting_autoscalers import ConflictingAutoscalers
from mm_operator.scaling.own_prometheus import OwnPrometheus, OwnPrometheusSettings
from mm_operator.scaling.prometheus import Endpoint, Prometheus
from mm_operator.scaling.queries import PART
from mm_operator.scaling.reader import read_all
from mm_operator.scaling.scaler import Scaler
from mm_operator.scaling.trust import trust
from support.answering_api import answered_by
from support.cases import cases
from support.model_documents import document

MADE = "2026-01-01T00:00:00Z"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Prometheus.__init__, "__defaults__", (3600.0,))


class NoOtherReader:
    """An API server without autoscalers: models that only recommend query it for nothing else."""

    async def list(self, *_: object) -> AsyncIterator[tuple[list[Any], str]]:
        yield [], ""


def vector(*result: dict[str, Any]) -> web.Response:
    data = {"resultType": "vector", "result": list(result)}
    return web.json_response({"status": "success", "data": data})


async def idle(_: web.Request) -> web.Response:
    values = {"accepted_steady": 0, "accepted_fast": 0, "sampled_at": 500, "now": 510}
    where = {"namespace": "demo", "pod": "well-0"}
    return vector(
        *({"metric": {**where, PART: part}, "value": [0, str(v)]} for part, v in values.items())
    )


async def lists_for_labels(_: web.Request) -> web.Response:
    return vector({"metric": ["well-0"], "value": [0, "1"]})


async def empty(_: web.Request) -> web.Response:
    return vector()


def model(name: str, **status: Any) -> dict[str, Any]:
    autoscaling = {
        "mode": "Recommend",
        "maxReplicas": 4,
        "objectives": [{"metric": "TimeToFirstToken", "target": "500ms"}],
    }
    held = document({"replicas": 1, "autoscaling": autoscaling}, name)
    more = {"uid": name, "generation": 1, "resourceVersion": "1", "creationTimestamp": MADE}
    return {**held, "metadata": {"name": name, "namespace": "demo", **more}, "status": status}


def pod(of: str) -> dict[str, Any]:
    marks = {labels.MODEL: of, labels.APP_COMPONENT: str(labels.Component.SERVER)}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": MADE}
    names = {"name": f"{of}-0", "namespace": "demo", "uid": f"{of}-0", "resourceVersion": "1"}
    metadata = {**names, "creationTimestamp": MADE, "labels": marks}
    return {"metadata": metadata, "status": {"phase": "Running", "conditions": [ready]}}


async def reported(address: str, *models: dict[str, Any]) -> dict[str, tuple[bool, str]]:
    records, cache, api = ModelCache(), Cache(), NoOtherReader()
    for one in models:
        records.put(one)
        cache.put("Pod", pod(one["metadata"]["name"]))
    client: Any = api
    own = OwnPrometheus(OwnPrometheusSettings((address,)))
    scaler = Scaler(
        models=records,
        cache=cache,
        client=client,
        prometheus=own,
        conflicts=ConflictingAutoscalers(client),
        requeue=lambda _key: None,
        interval_seconds=15.0,
    )
    try:
        await scaler.tick()
    finally:
        await own.close()
    return {
        key.name: (autoscaler.decision.metrics_available, autoscaler.decision.message)
        for key, _, autoscaler in scaler.autoscalers()
        if autoscaler.decision is not None
    }


@cases(
    "raises words",
    {
        "labels-that-are-no-labels": (False, "labels are not texts"),
        "whatever-reading-raises": (True, "see the operator's log"),
    },
)
async def test_garbage_holds_the_replicas(
    monkeypatch: pytest.MonkeyPatch, words: str, *, raises: bool
) -> None:
    plain = Prometheus.query

    async def query(self: Prometheus, promql: str, pods: int = 0) -> Any:
        answer = await plain(self, promql, pods)
        if raises and answer["data"]["result"][0]["metric"] == ["well-0"]:
            raise ZeroDivisionError("a defect")
        return answer

    monkeypatch.setattr(Prometheus, "query", query)
    async with answered_by(lists_for_labels) as bad:
        found = await reported(bad, model("well"))

    assert found["well"][0] is False
    assert words in found["well"][1]


async def test_a_status_that_cannot_be_read_stops_no_decision() -> None:
    """The plan of a status is not read, and a history that is none counts as empty."""
    async with answered_by(idle) as good:
        status = {"plan": {"limits": {"maxBatchSize": "many"}}, "scaling": {"history": "many"}}
        found = await reported(good, model("odd", **status), model("well"))

    assert set(found) == {"odd", "well"}
    assert found["well"][0] is True


async def test_the_one_of_a_pair_that_knows_nothing_is_queried_last() -> None:
    """After a restart a Prometheus answers, and is empty: at the next tick the other is queried."""
    async with answered_by(empty) as new, answered_by(idle) as old:
        client = Prometheus(Endpoint((new, old)), trust(Endpoint(())))
        where = ("demo", "well-0")
        try:
            first, second = [await read_all(client, [where], []) for _ in range(2)]
        finally:
            await client.close()

    assert (where in first, where in second) == (False, True)
