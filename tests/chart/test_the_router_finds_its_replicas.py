"""`mm-router` with the arguments and the account of the chart, on a real API server.

The Service is as the operator makes it; its EndpointSlices are made by Kubernetes' own controller.
"""

import asyncio
from pathlib import Path
from typing import Any

import helm_python as helm
import httpx
import pytest

from mm_api import labels
from mm_devcluster.cluster import ClusterInfo
from support.bound_pods import empty_node
from support.chart import CHART, RELEASE
from support.chart_accounts import account_kubeconfig, running
from support.clusters import namespace
from support.definition import install_definition
from support.eventually import eventually_async
from support.gateways import MODEL
from support.installed_router import NAME, PROGRAM, replica, router_arguments, set_ready
from support.model_namespace import Api
from support.ports import free_ports

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("place", "named"),
    [
        pytest.param("every", False, id="every-namespace", marks=pytest.mark.slow),
        pytest.param("one", True, id="named"),
    ],
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
            kubeconfig = account_kubeconfig(control_plane, home, NAME, tmp_path / "kubeconfig")
            await follow(values, api, tmp_path, node, kubeconfig)
        finally:
            config.uninstall(RELEASE, timeout=120)
    assert "Forbidden" not in (tmp_path / "router.log").read_text()


async def follow(
    values: dict[str, Any], api: Api, folder: Path, node: str, kubeconfig: Path
) -> None:
    """Run the router beside a replica and take the replica away, step by step."""
    port, metrics_port = free_ports(2)
    ports = [f"--port={port}", f"--metrics-port={metrics_port}"]
    tokens, limits = folder / "tokens", folder / "limits.json"
    tokens.write_text("alice: sk-a\n")
    limits.write_text('[{"name": "alice", "concurrentRequests": 1}]')
    files = [f"--auth-file={tokens}", f"--key-limits-file={limits}"]
    own = [*ports, "--lame-duck=0", *files]
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
    async with (
        replica(api, folder / "engine", node),
        httpx.AsyncClient(timeout=60, headers={"authorization": "Bearer sk-a"}) as client,
    ):
        with running(PROGRAM, [*router_arguments(values), *own], kubeconfig, folder / "router.log"):

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
            ready = await client.get(f"http://127.0.0.1:{metrics_port}/readyz")
            assert (ready.status_code, ready.text) == (200, "ready\n")
            await asyncio.to_thread(set_ready, api, MODEL, ready=False)
            await becomes(503)
            await asyncio.to_thread(api.kubectl, "delete", labels.PLURAL, MODEL, "--wait=false")
            await becomes(404)
