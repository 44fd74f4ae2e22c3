"""1,000 models of two pods on one Prometheus: what one tick of the autoscaler costs the operator.

Run: `.venv/bin/python bench/scaling/tick.py` (3 minutes). Prometheus is the real one and scrapes
every pod's entire exposition; caches are filled as the watches would fill them. Counted are the CPU
time of the process that ticks, which does nothing else, and that of Prometheus meanwhile: on a
machine that others use, they say what the wall time would be on one that is free.
"""

import argparse
import asyncio
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from mm_api import labels
from mm_operator.autoscaling import Decision
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.models import ModelCache
from mm_operator.scaling.conflicting_autoscalers import ConflictingAutoscalers
from mm_operator.scaling.own_prometheus import OwnPrometheus
from mm_operator.scaling.prometheus import OwnPrometheusSettings
from mm_operator.scaling.scaler import Scaler
from support.prometheus import (  # tests/ is no package of the distribution
    Prometheus,
    running_prometheus,
)
from support.scripted_gateways import ScriptedGateways

INTERVAL_SECONDS = 15
PODS = 2
NAMESPACES = 20
SETTLE_SECONDS = 50
"""Four scrapes: then every rate is there."""


class NoApi:
    """The API server's part in a tick of models that only recommend: no one else scales them."""

    async def list(self, *_: object, **__: object) -> AsyncIterator[tuple[list[Any], str]]:
        """Return no object."""
        yield [], ""


def model(number: int) -> dict[str, Any]:
    """Return a model as the API server sends it."""
    objectives = [
        {"metric": "TimeToFirstToken", "percentile": 95, "target": "500ms"},
        {"metric": "InterTokenLatency", "percentile": 95, "target": "50ms"},
    ]
    return {
        "metadata": {
            "namespace": f"team-{number % NAMESPACES}",
            "name": f"model-{number}",
            "uid": f"uid-{number}",
            "generation": 1,
            "resourceVersion": str(number + 1),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "model": {"source": {"persistentVolumeClaim": {"claimName": "c"}}},
            "replicas": PODS,
            "autoscaling": {"mode": "Recommend", "maxReplicas": 8, "objectives": objectives},
        },
        "status": {},
    }


def pod(number: int, replica: int) -> dict[str, Any]:
    """Return a Ready serving pod of a model."""
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    return {
        "metadata": {
            "namespace": f"team-{number % NAMESPACES}",
            "name": f"model-{number}-{replica}",
            "uid": f"uid-{number}-{replica}",
            "resourceVersion": str(1 + number * PODS + replica),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                labels.MODEL: f"model-{number}",
                labels.APP_COMPONENT: labels.Component.SERVER,
            },
        },
        "status": {"phase": "Running", "conditions": conditions},
    }


def exposition(models: int) -> str:
    """Return what the gateways of every pod expose, as one text."""
    gateways = ScriptedGateways()
    for number in range(models):
        for replica in range(PODS):
            name = f"model-{number}-{replica}"
            gateways.serve(
                f"team-{number % NAMESPACES}",
                name,
                requests_accepted_total=100,
                work_request=0.02,
                work_image_token=0.0001,
                work_text_token=0.0001,
                work_output_token=0.01,
            )
    return gateways.text()


async def measure(models: int, ticks: int, prometheus: Prometheus) -> dict[str, Any]:
    """Return CPU and wall seconds of ticks."""
    records, cache = ModelCache(), Cache()
    for number in range(models):
        records.put(model(number))
        for replica in range(PODS):
            cache.put("Pod", pod(number, replica))
    woken: list[object] = []
    api: Any = NoApi()
    own = OwnPrometheus(OwnPrometheusSettings((prometheus.address,)))
    scaler = Scaler(
        models=records,
        cache=cache,
        client=api,
        prometheus=own,
        conflicts=ConflictingAutoscalers(api),
        requeue=woken.append,
        interval_seconds=INTERVAL_SECONDS,
    )
    cpu: list[float] = []
    wall: list[float] = []
    requested: list[float] = []
    decided: list[int] = []
    problems: set[str] = set()
    for _ in range(ticks):
        theirs = await asyncio.to_thread(cpu_of, prometheus)
        began, clock = time.process_time(), time.monotonic()
        await scaler.tick()
        cpu.append(time.process_time() - began)
        wall.append(time.monotonic() - clock)
        requested.append(await asyncio.to_thread(cpu_of, prometheus) - theirs)
        seen = [one.decision for _, _, one in scaler.autoscalers()]
        decided.append(sum(one is not None and _is_informed(one) for one in seen))
        problems |= {one.vetoes[0].message for one in seen if one and not one.metrics_available}
        await asyncio.sleep(2)
    await own.close()
    return {
        "cpu_seconds_of_each_tick": [round(one, 3) for one in cpu],
        "prometheus_cpu_seconds_of_each_tick": [round(one, 3) for one in requested],
        "wall_seconds_of_each_tick": [round(one, 3) for one in wall],
        "models_decided_with_metrics": decided,
        "problems": sorted(problems),
        "cores_at_15_s": round(median(cpu[1:]) / INTERVAL_SECONDS, 3),
        "status_writes_requested": len(woken),
    }


def _is_informed(decision: Decision) -> bool:
    """Return whether a decision rests on the metrics of all pods: without any it would be cheap."""
    return decision.metrics_available and decision.inputs["readyReplicas"] == PODS


def cpu_of(prometheus: Prometheus) -> float:
    """Return the CPU seconds that a Prometheus has used, as it says itself; scrapes included."""
    with urllib.request.urlopen(f"{prometheus.address}/metrics", timeout=60) as answer:  # noqa: S310
        text = answer.read().decode()
    line = next(one for one in text.splitlines() if one.startswith("process_cpu_seconds_total "))
    return float(line.split()[1])


def main() -> None:
    """Run, print and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--ticks", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="keep the result in results/")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "served").mkdir()
        text = exposition(options.models)
        (place / "served" / "metrics").write_text(text)
        ports = free_ports(2)
        server = subprocess.Popen(
            [sys.executable, "-m", "http.server", str(ports[0]), "--bind", "127.0.0.1"],
            cwd=place / "served",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        job = {
            "job_name": "gateways",
            "honor_labels": True,
            "static_configs": [{"targets": [f"127.0.0.1:{ports[0]}"]}],
        }
        config = {
            "global": {"scrape_interval": "15s", "scrape_timeout": "14s"},
            "scrape_configs": [job],
        }
        try:
            with running_prometheus(place, config, port=ports[1]) as prometheus:
                time.sleep(SETTLE_SECONDS)
                reported = asyncio.run(measure(options.models, options.ticks, prometheus))
        finally:
            server.terminate()
            server.wait(10)
    result = {
        "command": "bench/scaling/tick.py",
        "machine": {"cpus": os.cpu_count(), "system": platform.platform(terse=True)},
        "load_average": os.getloadavg(),
        "models": options.models,
        "pods": options.models * PODS,
        "series": sum(not line.startswith("#") for line in text.splitlines()),
        **reported,
    }
    words = json.dumps(result, indent=2)
    print(words)
    if options.write:
        (Path(__file__).parent / "results" / f"tick-{options.models}.json").write_text(words + "\n")


def free_ports(count: int) -> tuple[int, ...]:
    """Return ports that no one listens on."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = tuple(int(probe.getsockname()[1]) for probe in probes)
    for probe in probes:
        probe.close()
    return ports


if __name__ == "__main__":
    main()
