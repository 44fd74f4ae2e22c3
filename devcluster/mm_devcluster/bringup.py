"""What ``up`` does once the parts run: wait for each in turn, feed the node, apply the add-ons."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from mm_devcluster.addons import DNS_DEPLOYMENT, dns_addons, storage_addons
from mm_devcluster.addresses import Network
from mm_devcluster.api import JSON_PATCH, MERGE_PATCH, Api, ApiError
from mm_devcluster.binaries import Progress
from mm_devcluster.blueprint import MADE_LAST
from mm_devcluster.certificates import NODE_NAME
from mm_devcluster.errors import PartFailedError
from mm_devcluster.images.builtin import build_coredns_image, build_pause_image
from mm_devcluster.images.load import Containerd
from mm_devcluster.launch import log_tail
from mm_devcluster.layout import Layout
from mm_devcluster.options import FakeDevices
from mm_devcluster.record import Record

POLL = 0.1  # seconds
NODE = f"/api/v1/nodes/{NODE_NAME}"
NODE_PARTS = ("kubelet", "containerd")  # whose logs show why a node is not ready
DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


@dataclass(frozen=True)
class Bringup:
    """One start of a cluster, with the time that is left for it."""

    record: Record
    layout: Layout
    deadline: float
    """``time.monotonic()`` value."""
    on_stage: Progress

    def wait(self, what: str, done: Callable[[], bool], *, parts: tuple[str, ...]) -> None:
        """Wait until something is so.

        Args:
            what: The state that is awaited, for people.
            done: Checks for it.
            parts: Whose logs are evidence when it does not come.

        Raises:
            PartFailedError: The time is up, or the cluster died.
        """
        started = time.monotonic()
        while not _holds(done):
            dead = not self.record.alive
            if dead or time.monotonic() > self.deadline:
                logs = ("supervisor",) if dead else ("supervisor", *parts)
                evidence = "\n".join(log_tail(self.layout.logs / f"{log}.log") for log in logs)
                problem = f"cluster {self.record.name!r}: {'it died before' if dead else 'no'}"
                raise PartFailedError(f"{problem} {what}", time.monotonic() - started, evidence)
            time.sleep(POLL)


def await_api(bringup: Bringup, *, controllers: bool = True) -> Api:
    """Wait until the API server, and the controllers behind it, work; return a client."""
    bringup.on_stage("api", "waiting for the API server")
    api = Api(bringup.layout.kubeconfig)
    ready = partial(api.is_ready, without=() if controllers else MADE_LAST)
    bringup.wait("API server", ready, parts=("etcd", "kube-apiserver"))
    if not controllers:
        return api
    # The first thing controllers make, and the last that a first pod or Job needs.
    bringup.wait(
        "default service account",
        lambda: bool(api.get(DEFAULT_ACCOUNT)),
        parts=("kube-controller-manager",),
    )
    return api


def load_builtin_images(bringup: Bringup, binaries: dict[str, Path]) -> None:
    """Load the images that every node needs, as soon as containerd listens."""
    bringup.on_stage("images", "loading the images of pods' sandboxes and of DNS")
    socket = bringup.layout.containerd_socket
    bringup.wait("containerd socket", socket.exists, parts=("containerd",))
    containerd = Containerd(socket)
    containerd.load(build_pause_image(binaries["pause"]))
    containerd.load(build_coredns_image(binaries["coredns"]))


def set_up_node(
    bringup: Bringup,
    api: Api,
    network: Network,
    devices: FakeDevices,
    *,
    given: bool = True,
    wait: bool = True,
) -> None:
    """Apply the add-ons, label the node, wait until it offers its devices and DNS is ready.

    Args:
        bringup: The start.
        api: The API server.
        network: Addresses.
        devices: What the node offers, and its labels.
        given: Whether the devices are fakes, and are given to it here.
        wait: Whether to do more than to apply the add-ons.
    """
    for path, manifest in (*storage_addons(), *dns_addons(network)):
        api.apply(path, manifest)
    if not wait:
        return
    bringup.on_stage("node", "waiting for the node")
    bringup.wait("ready node", lambda: node_is_ready(api.get(NODE)), parts=NODE_PARTS)
    if devices.resources or devices.labels:
        bringup.on_stage("devices", ", ".join(f"{k}={v}" for k, v in devices.resources.items()))
        give_devices(api, devices if given else replace(devices, resources={}))
        bringup.wait(
            "devices on the node",
            lambda: has_devices(api.get(NODE), devices),
            parts=("kubelet",) if given else ("kubelet", "nvidia-device-plugin"),
        )
    bringup.on_stage("dns", "waiting for cluster DNS")
    bringup.wait(
        "cluster DNS",
        lambda: is_available(api.get(DNS_DEPLOYMENT)),
        parts=("kubelet", "kube-scheduler", "containerd"),
    )


def give_devices(api: Api, devices: FakeDevices) -> None:
    """Write extended resources and labels to the node; the kubelet keeps both."""
    if devices.resources:
        changes = [
            {
                "op": "add",
                "path": f"/status/capacity/{name.replace('/', '~1')}",
                "value": str(count),
            }
            for name, count in devices.resources.items()
        ]
        api.patch(f"{NODE}/status", changes, JSON_PATCH)
    api.patch(NODE, {"metadata": {"labels": devices.labels}}, MERGE_PATCH)


def node_is_ready(node: dict[str, Any]) -> bool:
    """Return whether a Node object says that it is ready for pods."""
    tainted = any(
        taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", [])
    )
    return not tainted and _condition(node, "Ready")


def is_available(deployment: dict[str, Any]) -> bool:
    """Return whether a Deployment says that it is available."""
    return _condition(deployment, "Available")


def has_devices(node: dict[str, Any], devices: FakeDevices) -> bool:
    """Return whether a Node offers the fake devices to the scheduler."""
    offered = node["status"].get("allocatable", {})
    return all(offered.get(name) == str(count) for name, count in devices.resources.items())


def _condition(thing: dict[str, Any], kind: str) -> bool:
    conditions = thing.get("status", {}).get("conditions", [])
    return any(item["type"] == kind and item["status"] == "True" for item in conditions)


def _holds(question: Callable[[], bool]) -> bool:
    """Check once; what does not exist or does not answer yet is not so yet."""
    try:
        return question()
    except (ApiError, KeyError, json.JSONDecodeError):
        return False
