"""`mm-router` with the arguments and the account of the chart, on a real API server.

The Service is as the operator makes it; its EndpointSlices are made by Kubernetes' own controller.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import helm_python as helm
import httpx
import pytest
import yaml

from mm_api import labels
from mm_devcluster.cluster import ClusterInfo
from mm_operator.children.metadata import own_labels
from support.bound_pods import bind, empty_node
from support.chart import CHART, RELEASE, of_kind
from support.clusters import apply, kubectl, namespace
from support.definition import install_definition
from support.eventually import eventually_async
from support.gateways import MODEL, Running, serve, toy_gateway
from support.model_documents import document
from support.model_namespace import Api
from support.ports import free_ports
from support.scripted_engine import ScriptedEngine

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

PROGRAM = Path(sys.executable).with_name("mm-router")


def machine_address() -> str:
    """Return an address of this machine that is not loopback: no endpoint may be on loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.254", 9))
        address: str = probe.getsockname()[0]
    return address


def account_kubeconfig(cluster: ClusterInfo, home: str, path: Path) -> Path:
    """Write a kubeconfig that is the router's account, with a token of an hour."""
    config = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
    token = kubectl(cluster, "-n", home, "create", "token", f"{RELEASE}-router").strip()
    config["users"] = [{"name": "account", "user": {"token": token}}]
    for context in config["contexts"]:
        context["context"]["user"] = "account"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


@contextmanager
def router(arguments: list[str], kubeconfig: Path, log: Path) -> Iterator[None]:
    """Run the router; at the end it must drain in peace."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [PROGRAM, *arguments],
            env=os.environ | {"KUBECONFIG": str(kubeconfig)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait(timeout=60)


@asynccontextmanager
async def replica(api: Api, folder: Path, node: str) -> AsyncIterator[Running]:
    """Run a gateway, and make model, Service and a pod that stands for it."""
    address = machine_address()
    async with serve(toy_gateway(folder, ScriptedEngine()), address=address) as gateway:
        marks = own_labels(MODEL, labels.Component.SERVER)
        container = {
            "name": "gateway",
            "image": "none",
            "ports": [{"name": "http", "containerPort": gateway.port}],
        }
        service = {
            "selector": {labels.MODEL: MODEL},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        }
        for kind, spec in (("Pod", {"containers": [container]}), ("Service", service)):
            metadata = {"name": MODEL, "namespace": api.namespace, "labels": marks}
            one = {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}
            apply(api.cluster, one)
        model = document(name=MODEL)
        model["metadata"]["namespace"] = api.namespace
        apply(api.cluster, model)
        bind(api, {"metadata": {"name": MODEL}}, node)
        set_ready(api, address, ready=True)
        yield gateway


def set_ready(api: Api, address: str, *, ready: bool) -> None:
    """Report a pod's state, as its kubelet would."""
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {
        "phase": "Running",
        "conditions": conditions,
        "podIP": address,
        "podIPs": [{"ip": address}],
    }
    patch = json.dumps({"status": status})
    api.kubectl("patch", "pod", MODEL, "--subresource=status", "--type=merge", "-p", patch)


@pytest.mark.parametrize(
    ("place", "named"),
    [pytest.param("every", False, id="every-namespace"), pytest.param("one", True, id="named")],
)
async def test_requests_follow_pods(
    place: str, *, named: bool, control_plane: ClusterInfo, tmp_path: Path
) -> None:
    """A ready pod answers, one that is not ready does not, and a model that is gone is unknown."""
    install_definition(control_plane)
    home, models = f"router-home-{place}", f"router-models-{place}"
    values = {
        "router": {
            "enabled": True,
            "namespaces": [models] if named else [],
            "authSecretRef": {"name": "clients"},
        }
    }
    api = Api(control_plane, models)
    with (
        namespace(control_plane, home),
        namespace(control_plane, models, enforce="privileged"),
        helm.Config(namespace=home, kubeconfig_path=str(control_plane.kubeconfig)) as config,
        empty_node(control_plane) as node,
    ):
        config.install(CHART, RELEASE, values, timeout=60)
        try:
            kubeconfig = account_kubeconfig(control_plane, home, tmp_path / "kubeconfig")
            await follow(values, api, tmp_path, node, kubeconfig, home=home)
        finally:
            config.uninstall(RELEASE, timeout=120)
    assert "Forbidden" not in (tmp_path / "router.log").read_text()


def split_over(model: str) -> str:
    """Return the file of splits by which `public` is one model, and another one gets nothing."""
    parts = [{"model": model, "weight": 1}, {"model": "nowhere/none", "weight": 0}]
    return json.dumps([{"name": "public", "models": parts}])


async def follow(
    values: dict[str, Any], api: Api, folder: Path, node: str, kubeconfig: Path, *, home: str
) -> None:
    """Run the router beside a replica and take the replica away, step by step."""
    port, metrics_port = free_ports(2)
    (deployment,) = (
        one for one in of_kind("Deployment", values) if one["metadata"]["name"].endswith("-router")
    )
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    splits = folder / "splits.json"
    splits.write_text(split_over(f"{api.namespace}/{MODEL}"))
    ports = [f"--port={port}", f"--metrics-port={metrics_port}"]
    tokens, limits = folder / "tokens", folder / "limits.json"
    tokens.write_text("alice: sk-a\n")
    limits.write_text('[{"name": "alice", "concurrentRequests": 1}]')
    files = [f"--splits-file={splits}", f"--auth-file={tokens}", f"--key-limits-file={limits}"]
    # The chart is rendered for another namespace than the one that it is installed in.
    own = [*ports, f"--routers={home}/{RELEASE}-router", "--claims-port=0", "--lame-duck=0", *files]
    body = {"model": "public", "messages": [{"role": "user", "content": "hello"}]}
    async with (
        replica(api, folder / "engine", node),
        httpx.AsyncClient(timeout=60, headers={"authorization": "Bearer sk-a"}) as client,
    ):
        with router([*container["args"], *own], kubeconfig, folder / "router.log"):

            async def status() -> int:
                url = f"http://127.0.0.1:{port}/v1/chat/completions"
                try:
                    return (await client.post(url, json=body)).status_code
                except httpx.TransportError:
                    return 0

            async def becomes(expected: int) -> None:
                async def found() -> bool:
                    return await status() == expected

                await eventually_async(found, pause_seconds=0.2)

            await becomes(200)
            splits.write_text(split_over(f"{api.namespace}/other"))
            await becomes(404)
            splits.write_text(split_over(f"{api.namespace}/{MODEL}"))
            await becomes(200)
            ready = await client.get(f"http://127.0.0.1:{metrics_port}/readyz")
            assert (ready.status_code, ready.text) == (200, "ready\n")
            await asyncio.to_thread(set_ready, api, machine_address(), ready=False)
            await becomes(503)
            await asyncio.to_thread(api.kubectl, "delete", labels.PLURAL, MODEL, "--wait=false")
            await becomes(404)
