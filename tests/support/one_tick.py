"""One tick of the autoscaler over models that serve, with what a Prometheus answers."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from mm_api import labels
from mm_operator.autoscaling import Decision
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.models import ModelCache
from mm_operator.scaling.conflicting_autoscalers import ConflictingAutoscalers
from mm_operator.scaling.own_prometheus import OwnPrometheus
from mm_operator.scaling.prometheus import OwnPrometheusSettings
from mm_operator.scaling.queries import PART
from mm_operator.scaling.scaler import Scaler
from support.model_documents import document

MADE = "2026-01-01T00:00:00Z"


class NoOtherReader:
    """An API server without autoscalers: models that only recommend query it for nothing else."""

    async def list(self, *_: object) -> AsyncIterator[tuple[list[Any], str]]:
        yield [], ""


def vector(*result: dict[str, Any]) -> web.Response:
    data = {"resultType": "vector", "result": list(result)}
    return web.json_response({"status": "success", "data": data})


def samples(series: Mapping[str, Mapping[str, float]]) -> web.Response:
    """Return the answer to a combined query: values by part, by pod."""
    return vector(
        *(
            {"metric": {"namespace": "demo", "pod": pod, PART: part}, "value": [0, str(value)]}
            for pod, values in series.items()
            for part, value in values.items()
        )
    )


def model(name: str, status: Any = None, **spec: Any) -> dict[str, Any]:
    autoscaling = {
        "mode": "Recommend",
        "maxReplicas": 4,
        "objectives": [{"metric": "TimeToFirstToken", "target": "500ms"}],
    }
    held = document({"replicas": 1, "autoscaling": autoscaling, **spec}, name)
    more = {"uid": name, "generation": 1, "resourceVersion": "1", "creationTimestamp": MADE}
    return {**held, "metadata": {"name": name, "namespace": "demo", **more}, "status": status or {}}


def pod(of: str, component: labels.Component = labels.Component.SERVER) -> dict[str, Any]:
    marks = {labels.MODEL: of, labels.APP_COMPONENT: str(component)}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": MADE}
    name = f"{of}-{component}-0"
    names = {"name": name, "namespace": "demo", "uid": name, "resourceVersion": "1"}
    metadata = {**names, "creationTimestamp": MADE, "labels": marks}
    return {"metadata": metadata, "status": {"phase": "Running", "conditions": [ready]}}


@asynccontextmanager
async def scaler_of(
    models: ModelCache, cache: Cache, api: Any, addresses: tuple[str, ...] = (), **changes: Any
) -> AsyncIterator[Scaler]:
    """Make one that reads a Prometheus at addresses, and moves replicas at `api`."""
    own = OwnPrometheus(OwnPrometheusSettings(addresses))
    try:
        yield Scaler(
            models=models,
            cache=cache,
            client=api,
            prometheus=own,
            conflicts=ConflictingAutoscalers(api),
            requeue=lambda _key: None,
            interval_seconds=15.0,
            **changes,
        )
    finally:
        await own.close()


async def decisions(
    address: str, *models: dict[str, Any], others: Iterable[tuple[str, dict[str, Any]]] = ()
) -> dict[str, Decision]:
    """Return what a tick decided on each model, by name; `others`: objects beside their pods."""
    records, cache, api = ModelCache(), Cache(), NoOtherReader()
    for one in models:
        records.put(one)
        cache.put("Pod", pod(one["metadata"]["name"]))
    for kind, other in others:
        cache.put(kind, other)
    async with scaler_of(records, cache, api, (address,)) as scaler:
        await scaler.tick()
    return {
        key.name: autoscaler.decision
        for key, _, autoscaler in scaler.autoscalers()
        if autoscaler.decision is not None
    }
