"""The autoscaler's tick against a real API server and a real Prometheus, with a clock of the test.

Ten minutes of ticks then take seconds. Nothing of the operator runs beside it, so the scale
subresource is written by the tick and by the test alone; pods are those of a real Deployment.
"""

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mm_operator.cluster.cache import Cache
from mm_operator.cluster.client import Client, connect
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache
from mm_operator.scaling.endpoints import Endpoints
from mm_operator.scaling.prometheus import Endpoint
from mm_operator.scaling.rivals import Rivals
from mm_operator.scaling.scaler import Scaler
from support.absent_kubelet import get, pods, serving
from support.clusters import eventually
from support.model_documents import at, document
from support.model_namespace import Api
from support.prometheus import Prometheus, running_prometheus
from support.scripted_gateways import ScriptedGateways

MODEL = "llava"
SERVERS = f"serving.multimodal.dev/model={MODEL},app.kubernetes.io/component=server"
TICK_SECONDS = 15.0


@dataclass
class Clock:
    """Unix seconds that pass when the test says so; `skew` is what this process has wrong."""

    skew: float = 0.0
    passed: float = 0.0

    def __call__(self) -> float:
        """Return the time as this process sees it."""
        return time.time() + self.skew + self.passed


@dataclass
class Site:
    """One model between 1 and 4 replicas of one slot each, and the tick that follows it."""

    api: Api
    gateways: ScriptedGateways
    client: Client
    address: str
    clock: Clock = field(default_factory=Clock)
    models: ModelCache = field(default_factory=ModelCache)
    cache: Cache = field(default_factory=Cache)
    scaler: Scaler = field(init=False)

    def __post_init__(self) -> None:
        """Make the first leader."""
        self.lead()

    def lead(self) -> None:
        """Let another process lead: it knows what the API server holds, and nothing else."""
        self.scaler = Scaler(
            models=self.models,
            cache=self.cache,
            client=self.client,
            endpoints=Endpoints(self.client, Endpoint((self.address,))),
            rivals=Rivals(self.client),
            wake=lambda _key: None,
            interval_seconds=TICK_SECONDS,
            clock=self.clock,
        )

    async def tick(self, times: int = 1) -> dict[str, Any]:
        """Let so many ticks pass; return status.scaling after the last."""
        for _ in range(times):
            self.clock.passed += TICK_SECONDS
            self._refresh()
            await self.scaler.tick()
        return self.publish()

    def publish(self) -> dict[str, Any]:
        """Write the status, as the operator's reconcile does, and return its part of scaling."""
        found = self.model()
        view = self.scaler.view(found["metadata"]["uid"])
        assert view is not None
        scaling = view.status.model_dump(by_alias=True, mode="json", exclude_none=True)
        body = json.dumps({"status": {"scaling": scaling}})
        self.api.kubectl(
            "patch", "mmm", MODEL, "--subresource=status", "--type=merge", "-p", body
        )
        return {**scaling, "active": view.active, "why": view.reason, "told": view.message}

    def model(self) -> dict[str, Any]:
        """Return the model."""
        return get(self.api, "mmm", MODEL)

    def replicas(self) -> int:
        """Return what is asked for."""
        return int(self.model()["spec"]["replicas"])

    def serve(self, replicas: int, **load: float) -> None:
        """Let so many pods be Ready and report the same; the others of the Deployment stay."""
        self.api.kubectl("scale", "deployment", MODEL, f"--replicas={replicas}")
        eventually(lambda: len(pods(self.api, SERVERS)) == replicas, timeout=60)
        serving(self.api, MODEL)
        self.report(**load)

    def report(self, **load: float) -> None:
        """Let every pod report the same from now on."""
        self.gateways.pods.clear()
        for pod in pods(self.api, SERVERS):
            self.gateways.serve(self.api.namespace, pod["metadata"]["name"], **load)

    def _refresh(self) -> None:
        """Do what the operator's watches do."""
        self.models.put(self.model())
        found = json.loads(self.api.kubectl("get", "pods", "-l", SERVERS, "-o", "json"))["items"]
        there = {pod["metadata"]["uid"] for pod in found}
        for item in list(self.cache.of_model(Key(self.api.namespace, MODEL))):
            if item.uid not in there:
                self.cache.remove("Pod", item.parse())
        for pod in found:
            self.cache.put("Pod", pod)
