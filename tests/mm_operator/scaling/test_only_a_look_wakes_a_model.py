"""What waits in routers moves replicas at the look that counted it, where there are routers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mm_operator.cluster.cache import Cache
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache
from mm_operator.scaling.conflicting_autoscalers import ConflictingAutoscalers
from mm_operator.scaling.endpoints import Endpoints
from mm_operator.scaling.own_prometheus import OwnPrometheus, OwnPrometheusSettings
from mm_operator.scaling.scaler import Scaler
from support.model_documents import document

KEY = Key("demo", "llava")
METADATA = {
    "name": KEY.name,
    "namespace": KEY.namespace,
    "uid": "1",
    "generation": 1,
    "resourceVersion": "1",
    "creationTimestamp": "2026-11-30T00:00:00Z",
}


class Api:
    """An API server that takes numbers of replicas."""

    def __init__(self) -> None:
        self.replicas: list[int] = []

    async def merge(self, *_: Any, **__: Any) -> dict[str, Any]:
        self.replicas.append(_[3]["spec"]["replicas"])
        return {"metadata": {"resourceVersion": "2"}}

    async def list(self, *_: Any) -> AsyncIterator[Any]:
        for nothing in ():
            yield nothing


@asynccontextmanager
async def asleep(**changes: Any) -> AsyncIterator[tuple[Scaler, Api]]:
    api: Any = Api()
    models, endpoints = ModelCache(), Endpoints(OwnPrometheus(OwnPrometheusSettings()), ())
    spec = {"replicas": 0, "autoscaling": {"minReplicas": 0}}
    models.put({**document(spec, KEY.name), "metadata": METADATA})
    scaler = Scaler(
        models=models,
        cache=Cache(),
        client=api,
        endpoints=endpoints,
        conflicts=ConflictingAutoscalers(api),
        wake=lambda _key: None,
        interval_seconds=15.0,
        **{"held": lambda _key: 3, "hold_problem": lambda _namespace: "", **changes},
    )
    try:
        yield scaler, api
    finally:
        await endpoints.close()


async def test_a_tick_does_not_trust_an_older_count() -> None:
    """Those requests may be answered, and the model put to sleep since."""
    async with asleep() as (scaler, api):
        await scaler.tick()
        assert api.replicas == []

        await scaler.wake([KEY, Key("demo", "unknown")])
        assert api.replicas == [1]


async def test_without_routers_the_fewest_is_one() -> None:
    async with asleep(held=lambda _key: 0, hold_problem=None) as (scaler, api):
        await scaler.tick()
        view = scaler.view("1")

    assert api.replicas == [1]
    assert view is not None
    assert "minReplicas 0 counts as 1, because nothing holds requests" in view.message
