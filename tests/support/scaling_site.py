"""The autoscaler's tick on a real API server and a real Prometheus, with the test's own clock.

Ten minutes of ticks then take seconds. No operator runs beside it: replicas are written by the tick
and by the test alone. Pods are objects of the API server whose status the test writes, or that its
scheduler finds no node for.
"""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from mm_api import labels
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.client import Client, connect
from mm_operator.cluster.models import ModelCache
from mm_operator.cluster.resources import MODEL, POD
from mm_operator.scaling.conflicting_autoscalers import ConflictingAutoscalers
from mm_operator.scaling.own_prometheus import OwnPrometheus
from mm_operator.scaling.prometheus import OwnPrometheusSettings
from mm_operator.scaling.scaler import Scaler
from support.model_namespace import Api
from support.scaled_models import scaled
from support.scripted_gateways import ScriptedGateways

NAME = "llava"
TICK_SECONDS = 15.0
QUICK = {"scaleDown": {"stabilizationWindowSeconds": 15}}
"""The policy's windows at their shortest: a step down is seen within ten minutes of ticks."""

_READY = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
_NO_RIGHTS = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@dataclass
class Clock:
    """Unix seconds of the operator; they pass when the test says so."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@dataclass
class Site:
    """One model of one slot a replica, and the tick that follows it."""

    api: Api
    gateways: ScriptedGateways
    client: Client
    prometheus: OwnPrometheus
    clock: Clock = field(default_factory=Clock)
    models: ModelCache = field(default_factory=ModelCache)
    cache: Cache = field(default_factory=Cache)
    scaler: Scaler = field(init=False)
    ticks: list[int] = field(default_factory=list)
    """What was requested after each tick."""

    def __post_init__(self) -> None:
        self.another_leads()

    def another_leads(self) -> None:
        """Let another process lead: it knows what the API server holds, and nothing else."""
        self.scaler = Scaler(
            models=self.models,
            cache=self.cache,
            client=self.client,
            prometheus=self.prometheus,
            conflicts=ConflictingAutoscalers(self.client),
            requeue=lambda _key: None,
            interval_seconds=TICK_SECONDS,
            clock=self.clock,
        )

    async def tick(self, times: int = 1, *, killed: bool = False) -> dict[str, Any]:
        for _ in range(times):
            self.clock.ahead += TICK_SECONDS
            await self._watched()
            await self.scaler.tick()
            if not killed:
                await self._publish()
            self.ticks.append((await self.model())["spec"]["replicas"])
        view = self.scaler.view((await self.model())["metadata"]["uid"])
        assert view is not None
        status: dict[str, Any] = view.status.model_dump(by_alias=True, mode="json")
        return {**status, "condition": (view.active, str(view.reason)), "message": view.message}

    async def model(self) -> dict[str, Any]:
        found = await self.client.get(MODEL, self.api.namespace, NAME)
        assert found is not None
        return found

    async def replicas(self) -> int:
        return int((await self.model())["spec"]["replicas"])

    async def settle(self, replicas: int) -> None:
        """Request so many replicas by hand, as many pods being Ready for an hour."""
        self.api.kubectl("scale", "mmm", NAME, f"--replicas={replicas}")
        self.start(*(f"pod-{number}" for number in range(replicas)))

    def start(self, *names: str, ready: bool = True) -> None:
        items = [_pod(name, scheduled=ready) for name in names]
        self.api.apply({"apiVersion": "v1", "kind": "List", "items": items})
        since = datetime.fromtimestamp(time.time() - 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": since} for kind in _READY
        ]
        status = json.dumps({"status": {"phase": "Running", "conditions": conditions}})
        for name in names if ready else ():
            patch = ("--subresource=status", "--type=merge", "-p", status)
            self.api.kubectl("patch", "pod", name, *patch)

    def report(self, *names: str, **load: float) -> None:
        self.gateways.serve_only(self.api.namespace, *names, **load)

    async def _watched(self) -> None:
        self.models.put(await self.model())
        uids: set[str] = set()
        version = ""
        async for pods, version in self.client.list(POD, self.api.namespace):  # noqa: B007  # the last
            for pod in pods:
                self.cache.put(POD.kind, pod)
                uids.add(pod["metadata"]["uid"])
        self.cache.keep(POD.kind, uids, namespace=self.api.namespace, version=int(version))

    async def _publish(self) -> None:
        """Do what the operator's reconcile does with the view: the next leader reads it."""
        view = self.scaler.view((await self.model())["metadata"]["uid"])
        if view is not None:
            scaling = view.status.model_dump(by_alias=True, mode="json", exclude_none=True)
            body = {"status": {"scaling": scaling}}
            await self.client.merge(
                MODEL, self.api.namespace, NAME, body, subresource="status", manager="test"
            )


@asynccontextmanager
async def followed(
    api: Api, gateways: ScriptedGateways, address: str, **labels: str
) -> AsyncIterator[Site]:
    """Yield a site whose series are at an address, those with these labels."""
    model = scaled(NAME, behavior=QUICK)
    assert "created" in api.apply(model)
    client = Client(await connect(str(api.cluster.kubeconfig), None))
    settings = OwnPrometheusSettings((address,), tuple(labels.items()))
    site = Site(api, gateways, client, OwnPrometheus(settings))
    try:
        yield site
    finally:
        await site.prometheus.close()
        await client.close()


def scraping(**clusters: ScriptedGateways) -> dict[str, Any]:
    return {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [
            {
                "job_name": name,
                "honor_labels": True,
                "static_configs": [
                    {"targets": [f"127.0.0.1:{served.port}"], "labels": {"cluster": name}}
                ],
            }
            for name, served in clusters.items()
        ],
    }


def _pod(name: str, *, scheduled: bool) -> dict[str, Any]:
    marks = {labels.MODEL: NAME, labels.APP_COMPONENT: str(labels.Component.SERVER)}
    image = "localhost/never-pulled"
    containers = [{"name": "server", "image": image, "securityContext": _NO_RIGHTS}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": marks},
        # A scheduler that is not there leaves the pod to the test.
        "spec": {
            "containers": containers,
            "schedulerName": "absent" if scheduled else "default-scheduler",
        },
    }
