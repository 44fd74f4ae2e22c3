"""Plays the kubelet by a watch: Jobs' pods end well, serving pods become ready.

Nothing is listed again and again: the bench must not load the API server that it measures with.
Every controller above the pod is the real one.
"""

import asyncio
import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from mm_api import labels
from mm_api.documents.build_result import BuildResult
from mm_api.documents.model_facts import InspectResult
from mm_operator.cluster.client import Client
from mm_operator.cluster.reflector import Reflector
from mm_operator.cluster.resources import CONFIG, POD
from mm_operator.errors import ClusterError

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from support.models import tiny_facts  # tests/ is no package of the distribution

_WORKERS = 8


class Kubelet:
    """Writes the status of each pod once.

    Args:
        client: for the watch and the patches.
        engines: model `i` has the checkpoint `i % engines`.
    """

    def __init__(self, client: Client, engines: int) -> None:
        self._client = client
        self._engines = engines
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._seen: set[str] = set()
        self._reflector = Reflector(
            client,
            POD,
            namespace=None,
            selector=f"{labels.APP_MANAGED_BY}={labels.MANAGED_BY_VALUE}",
            sink=self,
        )

    async def run(self) -> None:
        """Play until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reflector.run())
            for _ in range(_WORKERS):
                group.create_task(self._work())

    def put(self, kind: str, item: dict[str, Any]) -> None:
        """Take a new pod; one that was seen is done."""
        del kind
        if item["metadata"]["uid"] not in self._seen:
            self._seen.add(item["metadata"]["uid"])
            self._queue.put_nowait(item)

    def keep(
        self, kind: str, uids: Collection[str], *, namespace: str | None, version: int
    ) -> None:
        """End a list; pods that are gone need nothing."""

    def remove(self, kind: str, item: dict[str, Any]) -> None:
        """Forget a pod."""
        del kind
        self._seen.discard(item["metadata"]["uid"])

    async def _work(self) -> None:
        while True:
            pod = await self._queue.get()
            plans = await self._plans(pod)
            if plans is None:
                continue  # deleted with its model meanwhile
            await self.report(pod, pod_status(pod, plans, digest=self._digest(pod)))

    async def report(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        """Write what became of a pod; of one that is gone nothing."""
        place = pod["metadata"]["namespace"], pod["metadata"]["name"]
        try:
            await self._client.merge(POD, *place, {"status": status}, subresource="status")
        except ClusterError as error:
            if error.status != 404:  # noqa: PLR2004  # deleted meanwhile
                raise

    async def _plans(self, pod: dict[str, Any]) -> dict[str, str] | None:
        """Return the fingerprint in the plan that a build pod mounts, by its ConfigMap.

        None: the ConfigMap is gone.
        """
        if pod["metadata"]["labels"][labels.APP_COMPONENT] != labels.Component.BUILD:
            return {}
        name = next(
            one["configMap"]["name"] for one in pod["spec"]["volumes"] if one["name"] == "plan"
        )
        config = await self._client.get(CONFIG, pod["metadata"]["namespace"], name)
        if config is None:
            return None
        return {name: str(json.loads(config["data"]["plan.json"])["fingerprint"])}

    def _digest(self, pod: dict[str, Any]) -> str:
        """Return the digest of the checkpoint of an inspect pod's model."""
        model = pod["metadata"]["labels"].get(labels.MODEL, "")
        number = int(model.rpartition("-")[2]) % self._engines if model else 0
        return digest_of(str(number))


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
