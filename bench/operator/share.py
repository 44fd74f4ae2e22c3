"""The operator's own share of the way from apply to Ready: what it adds when no one else is slow.

Run: `.venv/bin/python bench/operator/share.py` (1 minute). The kubelet's part is played here. Each
stage begins when what the operator waits for is there (a Job's condition Complete, a Deployment's
ready replica) and ends when its answer is: no other controller's time is in it.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import (
    NAMESPACE,
    OperatorProcess,
    client_of,
    control_plane,
    listed,
    machine,
    model,
    write_result,
)
from steady import digest_of, pod_status

from mm_api import labels
from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import CONFIG, DEPLOYMENT, JOB, MODEL, POD, Resource

MAX_SECONDS = 1.0
_POLL_SECONDS = 0.02
"""A fiftieth of the limit: the poll's own error stays small."""


async def appears(
    client: Client, resource: Resource, wanted: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Wait until an object is there and return it."""
    async with asyncio.timeout(60):
        while True:
            for item in await listed(client, resource):
                if wanted(item):
                    return item
            await asyncio.sleep(_POLL_SECONDS)


async def answer_pod(client: Client, component: str) -> None:
    """Play the kubelet for the pod of a component as soon as it is there."""
    label = "app.kubernetes.io/component"
    pod = await appears(client, POD, lambda item: item["metadata"]["labels"][label] == component)
    plans = {
        item["metadata"]["name"]: json.loads(item["data"]["plan.json"])["fingerprint"]
        for item in await listed(client, CONFIG)
        if "plan.json" in (item.get("data") or {})
    }
    own = pod["metadata"]["labels"].get(labels.MODEL, "")
    status = pod_status(pod, plans, digest=digest_of(own))
    name = pod["metadata"]["name"]
    await client.merge(POD, NAMESPACE, name, {"status": status}, subresource="status")


def _starts(prefix: str) -> Callable[[dict[str, Any]], bool]:
    return lambda item: str(item["metadata"]["name"]).startswith(prefix)


def _complete(item: dict[str, Any]) -> bool:
    conditions = (item.get("status") or {}).get("conditions", ())
    return any(one["type"] == "Complete" and one["status"] == "True" for one in conditions)


def _ready(item: dict[str, Any]) -> bool:
    conditions = (item.get("status") or {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


async def one_life(client: Client, index: int) -> dict[str, float]:
    """Bring one model to Ready; return the seconds of each stage that is the operator's."""
    stages: dict[str, float] = {}
    name = f"model-{index:04}"

    async def timed(
        stage: str, resource: Resource, wanted: Callable[[dict[str, Any]], bool]
    ) -> None:
        started = time.monotonic()
        await appears(client, resource, wanted)
        stages[stage] = round(time.monotonic() - started, 3)

    await client.create(MODEL, NAMESPACE, model(index))
    await timed("apply -> inspect Job", JOB, _starts(f"{name}-inspect"))
    await answer_pod(client, "inspect")
    await appears(client, JOB, _complete)
    await timed("inspect Job complete -> build Job", JOB, _starts("engine-"))
    await answer_pod(client, "build")
    await appears(client, JOB, lambda item: _starts("engine-")(item) and _complete(item))
    await timed("build Job complete -> Deployment", DEPLOYMENT, _starts(name))
    await answer_pod(client, "server")
    await appears(client, DEPLOYMENT, lambda item: bool(item["status"].get("availableReplicas")))
    await timed("replica available -> Ready", MODEL, _ready)
    await client.delete(MODEL, NAMESPACE, name)
    async with asyncio.timeout(60):
        while any([await listed(client, kind) for kind in (POD, JOB, DEPLOYMENT)]):
            for pod in await listed(client, POD):  # no kubelet confirms the end of a pod
                await client.delete(POD, NAMESPACE, pod["metadata"]["name"], at_once=True)
            await asyncio.sleep(_POLL_SECONDS)
    return stages


async def main() -> int:
    """Run the bench; exit code 1 when the share exceeds its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=int, default=5)
    parser.add_argument("--result", default="share")
    options = parser.parse_args()
    result: dict[str, Any] = {"command": " ".join(sys.argv), "machine": machine()}
    with tempfile.TemporaryDirectory() as folder, control_plane("bench-share") as cluster:
        async with client_of(cluster) as client:
            operator = OperatorProcess(cluster, Path(folder) / "operator.log")
            try:
                lives = [await one_life(client, index) for index in range(options.lives)]
            finally:
                operator.stop()
    result["lives"] = lives
    result["median_seconds_by_stage"] = {
        stage: statistics.median(life[stage] for life in lives) for stage in lives[0]
    }
    result["median_seconds_in_all"] = round(
        statistics.median(sum(life.values()) for life in lives), 3
    )
    write_result(options.result, result)
    return 0 if result["median_seconds_in_all"] <= MAX_SECONDS else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
