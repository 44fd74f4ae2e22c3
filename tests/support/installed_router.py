"""A router of the chart beside an API server: a process with the chart's arguments and account.

Pods that stand for a router or a gateway have a status that the test writes; Services find them by
Kubernetes' own controllers.
"""

import json
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mm_api import labels
from mm_operator.children.metadata import own_labels
from support.bound_pods import bind
from support.chart import RELEASE, of_kind
from support.clusters import apply
from support.gateways import MODEL, Running, serve, toy_gateway
from support.model_documents import document
from support.model_namespace import Api
from support.scripted_engine import ScriptedEngine

PROGRAM = Path(sys.executable).with_name("mm-router")
NAME = f"{RELEASE}-router"
"""Of the router's objects."""


def machine_address() -> str:
    """Return an address of this machine that is not loopback: no endpoint may be on loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.254", 9))
        address: str = probe.getsockname()[0]
    return address


def router_arguments(values: dict[str, Any]) -> list[str]:
    (deployment,) = (
        one for one in of_kind("Deployment", values) if one["metadata"]["name"] == NAME
    )
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    arguments: list[str] = container["args"]
    return arguments


@asynccontextmanager
async def replica(
    api: Api, folder: Path, node: str, engine: ScriptedEngine | None = None, **changes: Any
) -> AsyncIterator[Running]:
    """Run a gateway, and make model, Service and a pod that stands for it.

    `changes` replace fields of the gateway's plan.
    """
    address = machine_address()
    gateway = toy_gateway(folder, engine or ScriptedEngine(), **changes)
    async with serve(gateway, address=address) as running:
        marks = own_labels(MODEL, labels.Component.SERVER)
        make_pod(api, MODEL, marks, running.port)
        spec = {
            "selector": {labels.MODEL: MODEL},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        }
        metadata = {"name": MODEL, "namespace": api.namespace, "labels": marks}
        apply(
            api.cluster, {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
        )
        model = document(name=MODEL)
        model["metadata"]["namespace"] = api.namespace
        apply(api.cluster, model)
        bind(api, {"metadata": {"name": MODEL}}, node)
        set_ready(api, MODEL, ready=True)
        yield running


def make_pod(api: Api, name: str, marks: Mapping[str, str], port: int) -> None:
    container = {
        "name": "server",
        "image": "none",
        "ports": [{"name": "http", "containerPort": port}],
    }
    metadata = {"name": name, "namespace": api.namespace, "labels": dict(marks)}
    spec = {"containers": [container]}
    apply(api.cluster, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def set_ready(api: Api, name: str, *, ready: bool) -> None:
    address = machine_address()
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {
        "phase": "Running",
        "conditions": conditions,
        "podIP": address,
        "podIPs": [{"ip": address}],
    }
    patch = json.dumps({"status": status})
    api.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", patch)
