"""The second replica on a node that has the image and the engine: Ready how long after its load.

Run: `.venv/bin/python bench/operator/second_replica.py` (3 minutes with cached images): makes what
`make demo` makes on a cluster of its own, then scales its model from one replica to two and back,
some rounds. `--cluster NAME` uses the cluster of a `make demo CLUSTER=NAME` that stays; with
`--former-image IMAGE`, which its node has, the same model with that runtime image is measured in
turns with it. Replicas beyond the first are created by the Deployment; all of Kubernetes is real,
and the load is a random checkpoint of 5.7 MB on processors: what is left beside it is the product's
and Kubernetes' own.
"""

import argparse
import asyncio
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness import client_of, machine, write_result

from mm_api import labels
from mm_devcluster.cluster import ClusterInfo, down, info
from mm_devcluster.demo import settings
from mm_devcluster.demo.display import make_console, shown
from mm_devcluster.demo.estimates import Progress
from mm_devcluster.demo.graph import run_stages
from mm_devcluster.demo.session import Session
from mm_devcluster.demo.stages import stages_of
from mm_devcluster.demo.target import Target
from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import DEPLOYMENT, MODEL, POD, Resource

GOAL_SECONDS = 5.0
"""Beside the load: an issue's goal for a node with the image and the engine."""
_SLICES = Resource("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
_LOOK_SECONDS = 0.05
"""A hundredth of the goal."""
_LIMIT_SECONDS = 240.0
_BOTH = 2
"""Replicas: the first one, which answers, and the second."""
_NAMESPACE, _MODEL = settings.DEMO_NAMESPACE, settings.MODEL
_FORMER = f"{_MODEL}-former"
_LOADED = re.compile(r"mm_runtime\.launch\.phases ready after ([0-9.]+) s")
_MEASURED = re.compile(r"work was measured in ([0-9.]+) s")

Moments = dict[str, float]
"""What happened -> seconds since the model's replicas were set to two."""


class Round:
    """One second replica, from the change of the spec to requests that it may get."""

    def __init__(self, client: Client, target: Target, model: str) -> None:
        self._client = client
        self._target = target
        self._model = model
        self._began = 0.0
        self.moments: Moments = {}

    async def run(self) -> dict[str, Any]:
        """Scale to two, watch, and scale back; return seconds of each part."""
        old = {pod["metadata"]["uid"] for pod in await self._pods()}
        before = _idle_seconds()
        self._began = time.monotonic()
        await self._scale(_BOTH)
        pod = await self._until_ready(old)
        cores = os.cpu_count() or 1
        busy = 1 - (_idle_seconds() - before) / (cores * (time.monotonic() - self._began))
        logs = {
            name: self._target.call("logs", "-n", _NAMESPACE, pod, "-c", name)
            for name in ("server", "gateway")
        }
        await self._scale(1)
        await self._until(self._is_alone)
        load = float(_LOADED.findall(logs["server"])[-1])
        work = _MEASURED.findall(logs["gateway"])
        ready = self.moments["pod_ready"]
        return {
            "load_seconds": load,
            "ready_seconds": round(ready, 2),
            "beside_load_seconds": round(ready - load, 2),
            "server_start_seconds": round(
                self.moments["server_started"] - self.moments["server_runs"], 2
            ),
            "busy_share_of_cores": round(busy, 2),
            "work_measured_seconds": float(work[-1]) if work else None,
            "moments": {name: round(at, 2) for name, at in self.moments.items()},
        }

    async def _until_ready(self, old: set[str]) -> str:
        deadline = time.monotonic() + _LIMIT_SECONDS
        while True:
            pods = [one for one in await self._pods() if one["metadata"]["uid"] not in old]
            for pod in pods:
                self._note(pod)
            model = await self._client.get(MODEL, _NAMESPACE, self._model) or {}
            if (model.get("status") or {}).get("readyReplicas") == _BOTH:
                self._reached("status_says_ready")
            if "pod_ready" in self.moments and await self._in_service():
                self._reached("in_service")
            if {"in_service", "status_says_ready"} <= self.moments.keys():
                return str(pods[0]["metadata"]["name"])
            if time.monotonic() > deadline:
                raise TimeoutError(f"no second replica is Ready: {self.moments}")
            await asyncio.sleep(_LOOK_SECONDS)

    def _note(self, pod: Mapping[str, Any]) -> None:
        status = pod["status"]
        held = {one["type"]: one["status"] for one in status.get("conditions") or ()}
        states = [
            *(status.get("initContainerStatuses") or ()),
            *(status.get("containerStatuses") or ()),
        ]
        self._reached("pod_created")
        for one in states:
            if "running" in (one.get("state") or {}):
                self._reached(f"{one['name']}_runs")
            if one.get("started"):
                self._reached(f"{one['name']}_started")
        for kind, name in (("PodScheduled", "pod_scheduled"), ("Ready", "pod_ready")):
            if held.get(kind) == "True":
                self._reached(name)

    def _reached(self, name: str) -> None:
        self.moments.setdefault(name, time.monotonic() - self._began)

    @property
    def _pods_of(self) -> str:
        return f"{labels.MODEL}={self._model},{labels.APP_COMPONENT}={labels.Component.SERVER}"

    async def _pods(self) -> list[dict[str, Any]]:
        return [
            pod
            async for page, _ in self._client.list(POD, _NAMESPACE, selector=self._pods_of)
            for pod in page
        ]

    async def _in_service(self) -> bool:
        ready: set[str] = set()
        selector = f"kubernetes.io/service-name={self._model}"
        async for page, _ in self._client.list(_SLICES, _NAMESPACE, selector=selector):
            for one in page:
                for endpoint in one.get("endpoints") or ():
                    if (endpoint.get("conditions") or {}).get("ready"):
                        ready.update(endpoint["addresses"])
        return len(ready) == _BOTH

    async def _scale(self, replicas: int) -> None:
        await self._client.merge(MODEL, _NAMESPACE, self._model, {"spec": {"replicas": replicas}})

    async def _is_alone(self) -> bool:
        deployment = await self._client.get(DEPLOYMENT, _NAMESPACE, self._model) or {}
        return len(await self._pods()) == 1 and deployment["status"].get("readyReplicas") == 1

    async def _until(self, holds: Callable[[], Any]) -> None:
        deadline = time.monotonic() + _LIMIT_SECONDS
        while not await holds():
            if time.monotonic() > deadline:
                raise TimeoutError("the second replica does not go")
            await asyncio.sleep(_LOOK_SECONDS)


def _idle_seconds() -> float:
    """Return what all cores were idle for since the machine began."""
    return float(Path("/proc/uptime").read_text().split()[1])


async def measure(
    cluster: ClusterInfo, rounds: int, models: tuple[str, ...]
) -> dict[str, list[dict[str, Any]]]:
    """Return the numbers of each round of each model, which take turns."""
    found: dict[str, list[dict[str, Any]]] = {model: [] for model in models}
    target = Target(cluster.name, cluster.kubeconfig, cluster.kubectl)
    async with client_of(cluster) as client:
        for number in range(rounds):
            for model in models:
                one = await Round(client, target, model).run()
                print(f"{model}, round {number + 1}: {one}", flush=True)
                found[model].append(one)
    return found


async def serve_former(cluster: ClusterInfo, image: str) -> None:
    """Make the demo's model again with another runtime image, and wait until it answers."""
    async with client_of(cluster) as client:
        made = await client.get(MODEL, _NAMESPACE, _MODEL)
        if made is None:
            raise LookupError(f"no model {_MODEL} in {_NAMESPACE}: run `make demo` first")
        runtime = {**made["spec"].get("runtime", {}), "image": image}
        body = {
            "apiVersion": MODEL.api_version,
            "kind": MODEL.kind,
            "metadata": {"name": _FORMER, "namespace": _NAMESPACE},
            "spec": {**made["spec"], "runtime": runtime},
        }
        await client.apply(MODEL, body, "bench")
        deadline = time.monotonic() + _LIMIT_SECONDS
        while True:
            status = (await client.get(MODEL, _NAMESPACE, _FORMER) or {}).get("status") or {}
            if status.get("readyReplicas"):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{_FORMER} is not Ready: {status.get('conditions')}")
            await asyncio.sleep(1)


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return medians, and the slowest round's part beside the load."""
    beside = [one["beside_load_seconds"] for one in found]
    return {
        "load_seconds": statistics.median(one["load_seconds"] for one in found),
        "ready_seconds": statistics.median(one["ready_seconds"] for one in found),
        "beside_load_seconds": round(statistics.median(beside), 2),
        "slowest_beside_load_seconds": max(beside),
        "goal_beside_load_seconds": GOAL_SECONDS,
        "moments": {
            name: round(statistics.median(one["moments"][name] for one in found), 2)
            for name in found[0]["moments"]
        },
    }


def demo(name: str) -> None:
    """Make what `make demo` makes; SystemExit where a stage fails."""
    session = Session(settings.Options(cluster=name))
    stages = stages_of(session, [])
    with shown(Progress(stages, {}), make_console()) as show:
        failures = run_stages(stages, show)
    if failures:
        sys.exit(f"{failures[0].stage.title}: {failures[0].error}")


def main() -> int:
    """Measure and write; 0 when the median is within the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", help="of a `make demo` that stays; default: one of its own")
    parser.add_argument("--former-image", help="needs --cluster: compare with this runtime image")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--name", default="second-replica", help="of the file in results/")
    options = parser.parse_args()
    own = f"bench-second-{os.getpid()}"
    state = machine()
    models: tuple[str, ...] = (_MODEL,)
    try:
        if options.cluster is None:
            demo(own)
        cluster = info(options.cluster or own)
        if options.former_image:
            asyncio.run(serve_former(cluster, options.former_image))
            models = (_FORMER, _MODEL)
        found = asyncio.run(measure(cluster, options.rounds, models))
    finally:
        if options.cluster is None:
            down(own)
    medians = summary(found[_MODEL])
    result = {"machine": state, "summary": medians, "rounds": found[_MODEL]}
    if options.former_image:
        result |= {"former_summary": summary(found[_FORMER]), "former_rounds": found[_FORMER]}
    write_result(options.name, result)
    return int(medians["beside_load_seconds"] > GOAL_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
