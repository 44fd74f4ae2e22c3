"""200 models that are Ready: writes, reads, memory and CPU of an operator that only keeps watch.

Run: `.venv/bin/python bench/operator/steady.py` (5 minutes). The kubelet's part is played through
pods' status, as in `tests/support/absent_kubelet.py`; every controller is the real one.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import (
    NAMESPACE,
    ROOT,
    OperatorProcess,
    client_of,
    control_plane,
    create_models,
    listed,
    machine,
    write_result,
)
from thousand import rest, settled

from mm_api import labels
from mm_api.documents.build_result import BuildResult
from mm_api.documents.model_facts import InspectResult
from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import CONFIG, MODEL, POD

sys.path.insert(0, str(ROOT / "tests"))
from support.models import tiny_facts  # tests/ is no package of the distribution

_POLL_SECONDS = 1.0
_LIMIT_SECONDS = 400


async def play_kubelet(client: Client, *, one_engine: bool) -> None:
    """End Jobs' pods well and make serving pods ready, until cancelled."""
    done: set[str] = set()
    while True:
        plans = {
            item["metadata"]["name"]: json.loads(item["data"]["plan.json"])["fingerprint"]
            for item in await listed(client, CONFIG)
            if "plan.json" in (item.get("data") or {})
        }
        for pod in await listed(client, POD):
            if pod["metadata"]["uid"] not in done:
                own = "" if one_engine else pod["metadata"]["labels"].get(labels.MODEL, "")
                status = pod_status(pod, plans, digest=digest_of(own))
                name = pod["metadata"]["name"]
                await client.merge(POD, NAMESPACE, name, {"status": status}, subresource="status")
                done.add(pod["metadata"]["uid"])
        await asyncio.sleep(_POLL_SECONDS)


def digest_of(name: str) -> str:
    """Return the digest of a checkpoint that only models of one name have."""
    return f"sha256:{name.encode().hex():0>64}"


def pod_status(pod: dict[str, Any], plans: dict[str, str], *, digest: str) -> dict[str, Any]:
    """Return what a kubelet would report of a pod that did its work.

    Args:
        pod: the pod.
        plans: fingerprint of a build's plan, by the name of its ConfigMap.
        digest: of the checkpoint that an inspect pod read.
    """
    component = pod["metadata"]["labels"][labels.APP_COMPONENT]
    if component == labels.Component.SERVER:
        kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        return {
            "phase": "Running",
            "conditions": [{"type": kind, "status": "True"} for kind in kinds],
        }
    if component == labels.Component.INSPECT:
        message = InspectResult(facts=tiny_facts(source_digest=digest)).to_json()
    else:
        volumes = pod["spec"]["volumes"]
        config = next(one["configMap"]["name"] for one in volumes if one["name"] == "plan")
        message = BuildResult(fingerprint=plans[config], manifest_sha256="ab" * 32).to_json()
    ended = {"exitCode": 0, "reason": "Completed", "message": message}
    container = pod["spec"]["containers"][0]
    entry = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": ended},
    }
    return {"phase": "Succeeded", "containerStatuses": [entry]}


async def all_ready(client: Client, count: int) -> bool:
    """Return whether every model is Ready."""
    ready = 0
    for item in await listed(client, MODEL):
        conditions = (item.get("status") or {}).get("conditions", ())
        ready += any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready == count


async def main() -> int:
    """Run the bench; exit code 1 when a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--one-engine", action="store_true", help="all models share one engine")
    parser.add_argument("--result", default="steady")
    options = parser.parse_args()
    result: dict[str, Any] = {"command": " ".join(sys.argv), "machine": machine()}
    with tempfile.TemporaryDirectory() as folder, control_plane("bench-steady") as cluster:
        async with client_of(cluster) as client:
            started = time.monotonic()
            operator = OperatorProcess(cluster, Path(folder) / "operator.log")
            kubelet = asyncio.create_task(play_kubelet(client, one_engine=options.one_engine))
            try:
                await create_models(client, options.models)
                async with asyncio.timeout(_LIMIT_SECONDS):
                    while not await all_ready(client, options.models):
                        assert not kubelet.done(), kubelet.exception()
                        await asyncio.sleep(_POLL_SECONDS)
                result["seconds_until_all_are_ready"] = round(time.monotonic() - started, 1)
                await settled(operator)
                result["models"] = options.models
                result["writes_per_model_until_ready"] = operator.writes() / options.models
                result["requests_until_ready"] = operator.requests()
                result["failed_reconciles"] = operator.errors()
                result["steady"] = await rest(client, operator, options.seconds)
            finally:
                kubelet.cancel()
                operator.stop()
    write_result(options.result, result)
    steady = result["steady"]
    reads = steady["operator_reads"] / options.models / (options.seconds / 60)
    return 0 if steady["operator_writes"] == 0 and reads < 1 else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
