"""A controller of Gateway API takes the chart's HTTPRoute, and its Envoy leads to the router.

Real: the chart installed by Helm, Contour, the Envoy that it configures, the router, a gateway,
OpenAI's client. Pods are processes of this machine whose status the test writes. Run by
`make gateway-api-test`; elsewhere skipped unless Contour is compiled already.

Contour follows one Gateway and its routes, and sends Envoy the configuration that it makes of them.
Both run outside of the cluster, Contour as an admin: what its own installation would make is its
definitions and those of Gateway API.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import helm_python as helm
import httpx
import openai
import pytest
import pytest_asyncio
import yaml
from PIL import Image

from mm_devcluster.cluster import ClusterInfo
from support.bound_pods import bind, empty_node
from support.chart import CHART, RELEASE
from support.chart_accounts import account_kubeconfig, running
from support.clusters import apply, kubectl, namespace
from support.definition import install_definition
from support.ended import logged
from support.eventually import eventually_async
from support.gateways import MODEL
from support.go_modules import compiled, module_folder
from support.images import data_url, encode
from support.installed_router import NAME, PROGRAM, make_pod, replica, router_arguments, set_ready
from support.model_namespace import Api
from support.ports import free_ports
from support.scripted_engine import ScriptedEngine

CONTROLLER = "projectcontour.io/gateway-controller"
PORT_OFFSET = 8000
"""Envoy listens at a Gateway's port and so many more."""
STOP_SECONDS = 20.0
_UNUSED = ("tlsroutes", "grpcroutes", "tcproutes", "backendtlspolicies")
"""Of other versions or channels than the definitions here."""


def program() -> Path:
    return compiled("MM_BUILD_CONTOUR", "`make gateway-api-test` does that", "contour")[0]


def define_gateways(cluster: ClusterInfo) -> None:
    """Let the API server know Gateway API and Contour's own kinds. They stay, as others' may be."""
    standard = module_folder("contour", "sigs.k8s.io/gateway-api") / "config" / "crd" / "standard"
    contour = module_folder("contour", "github.com/projectcontour/contour")
    kinds = sorted(standard.glob("gateway.networking.k8s.io_*.yaml"))
    for file in (*kinds, contour / "examples" / "contour" / "01-crds.yaml"):
        kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", str(file))


@contextmanager
def running_contour(cluster: ClusterInfo, folder: Path, gateway: dict[str, str]) -> Iterator[None]:
    """Run Contour and an Envoy that it configures until the block ends."""
    xds, health, metrics, debug, stats = free_ports(5)
    config = folder / "contour.yaml"
    config.write_text(yaml.safe_dump({"gateway": {"gatewayRef": gateway}}))
    contour: list[str | Path] = [
        *(program(), "serve", "--insecure", "--disable-leader-election", "--config-path", config),
        *("--kubeconfig", cluster.kubeconfig, "--xds-address=127.0.0.1", f"--xds-port={xds}"),
        *("--health-address=127.0.0.1", f"--health-port={health}"),
        *("--http-address=127.0.0.1", f"--http-port={metrics}", f"--debug-http-port={debug}"),
        *("--stats-address=127.0.0.1", f"--stats-port={stats}"),
        *(f"--disable-feature={one}" for one in _UNUSED),
    ]
    # Names of sockets are short, and a test's folder may not be.
    with tempfile.TemporaryDirectory(prefix="mm-") as short:
        bootstrap = folder / "envoy.json"
        made: list[str | Path] = [
            *(program(), "bootstrap", bootstrap, "--xds-address=127.0.0.1", f"--xds-port={xds}"),
            f"--admin-address={short}/admin",
        ]
        subprocess.run(made, check=True, capture_output=True, timeout=STOP_SECONDS)
        envoy: list[str | Path] = [
            *(Path(sys.prefix) / "bin" / "envoy", "--config-path", bootstrap),
            *("--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"),
            *("--service-cluster", "tests", "--service-node", "tests"),
        ]
        with logged(contour, folder / "contour.log"), logged(envoy, folder / "envoy.log"):
            yield


pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

SECONDS = 120.0
HOST = "models.example.org"
ENVOYS_OWN_SECONDS = 15.0
"""After which Envoy ends an answer where its route says nothing (`RouteAction.timeout`)."""
LARGE = 1_000_000
"""Bytes of an image: as much as a connection of Envoy may buffer by default, about."""
POD = "router"


@dataclass(frozen=True)
class Site:
    """The release behind Envoy."""

    home: Api
    gateways: str
    """Namespace of the Gateway."""
    engine: ScriptedEngine
    url: str
    http: httpx.AsyncClient
    openai: openai.AsyncOpenAI

    async def say(self, *parts: dict[str, Any], **changes: Any) -> Any:
        content: Any = [{"type": "text", "text": "hello"}, *parts]
        body = {"model": MODEL, "messages": [{"role": "user", "content": content}], **changes}
        return await self.openai.chat.completions.create(**body)

    async def becomes(self, expected: int) -> None:
        """Wait until chats are answered by a status."""

        async def found() -> bool:
            try:
                await self.say()
            except openai.APIStatusError as error:
                return error.status_code == expected
            except openai.APIConnectionError:  # Envoy listens when it has a listener
                return False
            return expected == httpx.codes.OK

        await eventually_async(found, seconds=SECONDS, pause_seconds=0.2)

    def conditions(self) -> dict[str, str]:
        (parent,) = self.home.read("httproute", NAME)["status"]["parents"]
        assert parent["controllerName"] == CONTROLLER
        return {one["type"]: one["status"] for one in parent["conditions"]}


@contextmanager
def gateway(cluster: ClusterInfo, home: str, port: int) -> Iterator[dict[str, str]]:
    """Make a Gateway of every namespace's routes; yields what names it."""
    apply(cluster, *gateway_objects(home, port, routes="All"))
    try:
        yield {"namespace": home, "name": "public"}
    finally:
        kubectl(cluster, "delete", "gatewayclass", home, "--wait=false")


def gateway_objects(home: str, port: int, *, routes: str) -> list[dict[str, Any]]:
    """Return a GatewayClass and a Gateway; `routes`: of which namespaces it takes some."""
    api_version = "gateway.networking.k8s.io/v1"
    listener = {
        "name": "http",
        "protocol": "HTTP",
        "port": port - PORT_OFFSET,
        "allowedRoutes": {"namespaces": {"from": routes}},
    }
    return [
        {
            "apiVersion": api_version,
            "kind": "GatewayClass",
            "metadata": {"name": home},
            "spec": {"controllerName": CONTROLLER},
        },
        {
            "apiVersion": api_version,
            "kind": "Gateway",
            "metadata": {"name": "public", "namespace": home},
            "spec": {"gatewayClassName": home, "listeners": [listener]},
        },
    ]


@contextmanager
def release(
    cluster: ClusterInfo, home: str, gateways: str, models: str
) -> Iterator[dict[str, Any]]:
    """Install the chart with the values of docs/tasks/router.md; yields the values."""
    route = {
        "enabled": True,
        "parentRefs": [{"name": "public", "namespace": gateways}],
        "hostnames": [HOST],
    }
    values = {"router": {"enabled": True, "namespaces": [models], "httpRoute": route}}
    with helm.Config(namespace=home, kubeconfig_path=str(cluster.kubeconfig)) as config:
        config.install(CHART, RELEASE, values, timeout=60)
        try:
            yield values
        finally:
            config.uninstall(RELEASE, timeout=120)


@contextmanager
def routing(api: Api, values: dict[str, Any], folder: Path, node: str) -> Iterator[None]:
    """Run the router, and make a pod that the chart's Service takes for it."""
    kubeconfig = account_kubeconfig(api.cluster, api.namespace, NAME, folder / "kubeconfig")
    port, metrics = free_ports(2)
    own = [f"--port={port}", f"--metrics-port={metrics}"]
    with running(
        PROGRAM,
        [*router_arguments(values), *own, "--lame-duck=0"],
        kubeconfig,
        folder / "router.log",
    ):
        make_pod(api, POD, api.read("service", NAME)["spec"]["selector"], port)
        bind(api, {"metadata": {"name": POD}}, node)
        set_ready(api, POD, ready=True)
        yield


@pytest_asyncio.fixture(name="site")
async def running_site(control_plane: ClusterInfo, tmp_path: Path) -> AsyncIterator[Site]:
    """Run everything until a chat is answered."""
    program()
    install_definition(control_plane)
    (port,) = free_ports(1)
    engine = ScriptedEngine()
    async with AsyncExitStack() as stack:
        define_gateways(control_plane)
        homes = [f"{name}-{uuid4().hex[:8]}" for name in ("router", "gateways", "models")]
        for one in homes:
            stack.enter_context(namespace(control_plane, one, enforce="privileged"))
        home, gateways, models = homes
        values = stack.enter_context(release(control_plane, *homes))
        reference = stack.enter_context(gateway(control_plane, gateways, port))
        node = stack.enter_context(empty_node(control_plane))
        served = replica(
            Api(control_plane, models), tmp_path / "engine", node, engine, max_image_bytes=2 * LARGE
        )
        await stack.enter_async_context(served)
        api = Api(control_plane, home)
        stack.enter_context(routing(api, values, tmp_path, node))
        stack.enter_context(running_contour(control_plane, tmp_path, reference))
        url = f"http://127.0.0.1:{port}"
        http = httpx.AsyncClient(base_url=url, timeout=SECONDS, headers={"host": HOST})
        await stack.enter_async_context(http)
        client = openai.AsyncOpenAI(
            base_url=f"{url}/v1",
            api_key="none",
            max_retries=0,
            timeout=SECONDS,
            default_headers={"host": HOST},
        )
        await stack.enter_async_context(client)
        site = Site(api, gateways, engine, url, http, client)
        await site.becomes(httpx.codes.OK)
        yield site


def noise(least: int) -> bytes:
    """Return an image that no format makes small: a file of at least so many bytes."""
    side = int((least / 3) ** 0.5) + 1
    return encode(Image.frombytes("RGB", (side, side), os.urandom(side * side * 3)))


async def test_requests_reach_the_router_and_nothing_else_does(site: Site) -> None:
    assert site.conditions() == {"Accepted": "True", "ResolvedRefs": "True"}
    answer = await site.say()
    assert answer.choices[0].message.content == "a red square"
    file = noise(LARGE)
    assert len(file) > LARGE
    image = {"type": "image_url", "image_url": {"url": data_url(file)}}
    assert (await site.say(image)).choices[0].message.content == "a red square"
    assert [one.id async for one in site.openai.models.list()] == [MODEL]

    with pytest.raises(openai.NotFoundError) as unknown:
        await site.say(model="nothing")
    assert unknown.value.code == "model_not_found"
    missing = await site.http.get("/v1/nothing")
    assert missing.json()["error"]["message"] == "GET /v1/nothing: Not Found."
    for path in ("/", "/metrics", "/readyz", "/v10/models", "/tokenize"):
        answered = await site.http.get(path)
        assert (answered.status_code, answered.text) == (404, ""), path  # Envoy's own
    elsewhere = await site.http.get("/v1/models", headers={"host": "other.example.org"})
    assert (elsewhere.status_code, elsewhere.text) == (404, "")


async def test_streams_arrive_as_they_are_written_and_may_last(site: Site) -> None:
    """The engine holds all but the first piece for longer than Envoy would by itself."""
    site.engine.gate = asyncio.Event()
    texts = []
    async for event in await site.say(stream=True):
        texts.append(event.choices[0].delta.content or "" if event.choices else "")
        if "".join(texts) == "a" and not site.engine.gate.is_set():
            await asyncio.sleep(ENVOYS_OWN_SECONDS + 5)
            site.engine.gate.set()
    assert "".join(texts) == "a red square"
    assert site.engine.cancelled == 0


async def test_endpoints_and_gateways_decide(site: Site) -> None:
    """503 without a ready router, 200 with one again; the route says where no Gateway takes it."""
    for ready, expected in ((False, 503), (True, 200)):
        await asyncio.to_thread(set_ready, site.home, POD, ready=ready)
        await site.becomes(expected)

    port = httpx.URL(site.url).port
    assert port is not None
    own = gateway_objects(site.gateways, port, routes="Same")
    await asyncio.to_thread(apply, site.home.cluster, *own)
    await eventually_async(lambda: site.conditions()["Accepted"] == "False", seconds=SECONDS)
