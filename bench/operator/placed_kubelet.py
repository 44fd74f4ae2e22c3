"""Plays the kubelet of a model whose pods have addresses, by which a router finds them."""

import asyncio
import json
import subprocess
from collections import Counter
from typing import Any

from harness import NAMESPACE, kubectl
from kubelet import Kubelet

from mm_api import labels
from mm_devcluster.cluster import ClusterInfo
from mm_operator.cluster.client import Client

SERVED = "model-00000"
NODE = "soak-node"


class PlacedKubelet(Kubelet):
    """Gives pods of the served model an address, in turns, and ends them."""

    def __init__(self, client: Client, cluster: ClusterInfo, addresses: tuple[str, ...]) -> None:
        super().__init__(client, 100_000)
        self._cluster = cluster
        self._addresses = addresses
        self._ending: dict[str, asyncio.Task[None]] = {}
        self.pods: dict[str, str] = {}
        """Name -> address."""

    def put(self, kind: str, item: dict[str, Any]) -> None:
        """Take a pod; one that is being deleted ends a moment later."""
        name = item["metadata"]["name"]
        if "deletionTimestamp" in item["metadata"] and name in self.pods:
            if name not in self._ending:
                self._ending[name] = asyncio.create_task(self._end(name))
            return
        super().put(kind, item)

    async def _end(self, name: str) -> None:
        await asyncio.sleep(2)
        await asyncio.to_thread(self.delete_at_once, name)
        del self.pods[name], self._ending[name]

    def delete_at_once(self, name: str) -> None:
        """Delete a pod as a node does that is gone."""
        arguments = ("--force", "--grace-period=0", "--ignore-not-found", "--wait=false")
        kubectl(self._cluster, "delete", "pod", name, "-n", NAMESPACE, *arguments)

    async def report(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        """Place a pod of the served model before it is ready."""
        metadata = pod["metadata"]
        marks = metadata["labels"]
        if (marks.get(labels.MODEL), marks[labels.APP_COMPONENT]) == (SERVED, "server"):
            taken = Counter(self.pods.values())
            address = min(self._addresses, key=lambda one: taken[one])
            self.pods[metadata["name"]] = address
            await asyncio.to_thread(self._bind, metadata["name"])
            status = {**status, "podIP": address, "podIPs": [{"ip": address}]}
        await super().report(pod, status)

    def _bind(self, name: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/binding"
        command = [str(self._cluster.kubectl), f"--kubeconfig={self._cluster.kubeconfig}", "create"]
        subprocess.run(
            [*command, "--raw", path, "-f", "-"],
            input=json.dumps(body),
            text=True,
            capture_output=True,
            check=False,  # deleted meanwhile
            timeout=60,
        )
