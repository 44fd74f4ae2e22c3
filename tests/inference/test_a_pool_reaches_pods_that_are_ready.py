"""A request of OpenAI's client passes Envoy and the extension's own picker, and reaches a pod.

All of it is real but the kubelet: the chart's InferencePool at an API server, the picker of the
Gateway API Inference Extension, Envoy, gateways of this project. Pods are gateways in this process,
at loopback addresses that the test writes into their status.

After `config/charts/standalone` of the Gateway API Inference Extension: the endpoint picker reads
each request and names a pod in a header, and the request goes to that address.
"""

import asyncio
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import openai
import pytest
import pytest_asyncio
import yaml

from mm_api.contract import GATEWAY_PORT
from mm_devcluster.cluster import ClusterInfo
from mm_operator.children.deployment import selector
from support.absent_kubelet import get, ready_status, set_status
from support.chart import of_kind
from support.clusters import namespace
from support.ended import logged
from support.endpoint_picker import defined_pools, program, running_picker
from support.eventually import eventually, eventually_async
from support.gateways import MODEL, serve, toy_gateway
from support.images import data_url
from support.model_namespace import Api
from support.ports import free_ports
from support.scripted_engine import ScriptedEngine

PICKED = "x-gateway-destination-endpoint"
_TYPES = "type.googleapis.com/envoy.extensions"
_HTTP = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


@dataclass(frozen=True)
class Envoy:
    """One that runs."""

    url: str
    log: Path


@contextmanager
def running_envoy(folder: Path, picker: int) -> Iterator[Envoy]:
    port, admin = free_ports(2)
    config, log = folder / "envoy.yaml", folder / "envoy.log"
    config.write_text(yaml.safe_dump(_config(port, admin, picker)))
    program = Path(sys.prefix) / "bin" / "envoy"
    command = [
        *(program, "--config-path", config, "--concurrency", "1", "--disable-hot-restart"),
        *("--drain-time-s", "1", "--log-level", "warning"),
    ]
    with logged(command, log):
        yield Envoy(f"http://127.0.0.1:{port}", log)


def _config(port: int, admin: int, picker: int) -> dict[str, Any]:
    routes = {
        "virtual_hosts": [
            {
                "name": "pool",
                "domains": ["*"],
                # No time-out: a stream may last.
                "routes": [
                    {"match": {"prefix": "/"}, "route": {"cluster": "pods", "timeout": "0s"}}
                ],
            }
        ]
    }
    manager = {
        "@type": f"{_TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "pool",
        "route_config": routes,
        "http_filters": [_picking(), _filter("router", "router.v3.Router")],
    }
    listener = {
        "name": "pool",
        "address": _address(port),
        "per_connection_buffer_limit_bytes": 32768,
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "envoy.filters.network.http_connection_manager",
                        "typed_config": manager,
                    }
                ]
            }
        ],
    }
    return {
        "admin": {"address": _address(admin)},
        "static_resources": {"listeners": [listener], "clusters": [_pods(), _picker(picker)]},
    }


def _picking() -> dict[str, Any]:
    modes = {f"{part}_header_mode": "SEND" for part in ("request", "response")}
    modes |= {f"{part}_body_mode": "FULL_DUPLEX_STREAMED" for part in ("request", "response")}
    modes |= {f"{part}_trailer_mode": "SEND" for part in ("request", "response")}
    return _filter(
        "ext_proc",
        "ext_proc.v3.ExternalProcessor",
        grpc_service={"envoy_grpc": {"cluster_name": "picker"}, "timeout": "60s"},
        processing_mode=modes,
        message_timeout="60s",
    )


def _filter(name: str, kind: str, **fields: Any) -> dict[str, Any]:
    typed = {"@type": f"{_TYPES}.filters.http.{kind}", **fields}
    return {"name": f"envoy.filters.http.{name}", "typed_config": typed}


def _pods() -> dict[str, Any]:
    return {
        "name": "pods",
        "type": "ORIGINAL_DST",
        "connect_timeout": "60s",
        "lb_policy": "CLUSTER_PROVIDED",
        "original_dst_lb_config": {"use_http_header": True, "http_header_name": PICKED},
    }


def _picker(port: int) -> dict[str, Any]:
    tls = {"@type": f"{_TYPES}.transport_sockets.tls.v3.UpstreamTlsContext"}
    tls["common_tls_context"] = {"alpn_protocols": ["h2"]}  # type: ignore[assignment]
    http2 = {
        "@type": f"type.googleapis.com/{_HTTP}",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    endpoint = {"endpoint": {"address": _address(port)}}
    return {
        "name": "picker",
        "type": "STATIC",
        "connect_timeout": "60s",
        "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": tls},
        "typed_extension_protocol_options": {_HTTP: http2},
        "load_assignment": {"cluster_name": "picker", "endpoints": [{"lb_endpoints": [endpoint]}]},
    }


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

SECONDS = 120.0
PODS = ("llava-a", "llava-b", "llava-c", "other-a")
LARGE = 1_000_000
"""Bytes of an image: thirty times what a connection of Envoy may buffer here."""


@dataclass
class Pool:
    """Pods, and a client of the address in front of them."""

    api: Api
    engines: dict[str, ScriptedEngine]
    addresses: dict[str, str]
    client: openai.AsyncOpenAI

    def ready(self, *names: str) -> None:
        for name in PODS:
            pod = get(self.api, "pod", name)
            status = ready_status(pod)
            address = self.addresses[name]
            status |= {"podIP": address, "podIPs": [{"ip": address}]}
            for condition in status["conditions"]:
                if condition["type"] in {"ContainersReady", "Ready"}:
                    condition["status"] = str(name in names)
            set_status(self.api, pod, status)

    async def say(self, text: str, *parts: dict[str, Any]) -> str:
        content: Any = [{"type": "text", "text": text}, *parts]
        done = await self.client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": content}], timeout=SECONDS
        )
        return done.choices[0].message.content or ""

    async def reached(self, chats: int) -> Counter[str]:
        """Send so many chats that have nothing in common; return which pods they reached."""
        before = {name: len(engine.requests) for name, engine in self.engines.items()}
        for number in range(chats):
            assert await self.say(f"{uuid4()} {number}") == "a red square"
        after = {name: len(engine.requests) for name, engine in self.engines.items()}
        return +Counter({name: after[name] - before[name] for name in after})

    async def only(self, *names: str) -> None:
        """Wait until the picker knows these pods, and see that no other gets a request."""

        async def known() -> bool:
            try:
                return set(await self.reached(len(names) * 4)) == set(names)
            except openai.APIStatusError:  # while there is no pod
                return False

        await eventually_async(known, seconds=SECONDS)
        assert set(await self.reached(12)) <= set(names)


@pytest_asyncio.fixture(name="pool")
async def running_pool(control_plane: ClusterInfo, tmp_path: Path) -> AsyncIterator[Pool]:
    """Run everything; two of three pods of the model are ready, and one of another model is."""
    program()
    # Addresses of this process alone, as every pod has the port that the pool names.
    first, second = random.SystemRandom().sample(range(2, 250), 2)
    addresses = {name: f"127.{first}.{second}.{10 + at}" for at, name in enumerate(PODS)}
    engines = {name: ScriptedEngine() for name in PODS}
    async with AsyncExitStack() as stack:
        for name in PODS:
            limits = {"max_image_bytes": 2 * LARGE, "max_queue_size": 16}
            gateway = toy_gateway(tmp_path / name, engines[name], **limits)
            running = serve(gateway, address=addresses[name], port=GATEWAY_PORT)
            await stack.enter_async_context(running)
        stack.enter_context(defined_pools(control_plane))
        own = namespace(control_plane, f"pool-{uuid4().hex[:8]}", enforce="privileged")
        api = Api(control_plane, stack.enter_context(own))
        await asyncio.to_thread(_make, api)
        picker = stack.enter_context(
            running_picker(control_plane, tmp_path, api.namespace, "llava")
        )
        envoy = stack.enter_context(running_envoy(tmp_path, picker))
        client = openai.AsyncOpenAI(base_url=f"{envoy.url}/v1", api_key="none", max_retries=0)
        await stack.enter_async_context(client)
        pool = Pool(api, engines, addresses, client)
        await asyncio.to_thread(pool.ready, "llava-a", "llava-b", "other-a")
        yield pool


def _make(api: Api) -> None:
    """Make the pool that the chart renders, and pods; the account comes a moment after."""
    value = {
        "namespace": api.namespace,
        "model": "llava",
        "endpointPicker": {"name": "llava-picker", "port": 9002},
    }
    for manifest in of_kind("InferencePool", {"inferencePools": [value]}):
        _applied(api, manifest)
    for name in PODS:
        container = {"name": "server", "image": "none"}
        _applied(
            api,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": selector(name.partition("-")[0])},
                "spec": {"containers": [container], "automountServiceAccountToken": False},
            },
        )


def _applied(api: Api, manifest: dict[str, Any]) -> None:
    """Apply an object; the API server may learn of its kind, or the account, a moment later."""
    text = yaml.safe_dump(manifest)
    eventually(lambda: api.kubectl("apply", "-f", "-", stdin=text), seconds=SECONDS)


async def test_requests_reach_ready_pods_of_the_pool(pool: Pool) -> None:
    """Both ready pods get some; when others are ready these do, and without one it is a 503."""
    await pool.only("llava-a", "llava-b")
    await asyncio.to_thread(pool.ready, "llava-c", "other-a")
    await pool.only("llava-c")
    await asyncio.to_thread(pool.ready, "other-a")

    async def refused() -> bool:
        try:
            await pool.say("hello")
        except openai.APIStatusError as error:
            return error.status_code == 503
        return False

    await eventually_async(refused, seconds=SECONDS)
    assert pool.engines["other-a"].requests == []


async def test_large_images_and_streams_pass(pool: Pool) -> None:
    """An image of a megabyte goes through; a stream comes in pieces, before its end."""
    await pool.only("llava-a", "llava-b")
    url = data_url(bytes(LARGE))
    with pytest.raises(openai.BadRequestError, match="image"):  # the gateway has read it
        await pool.say("what is it ?", {"type": "image_url", "image_url": {"url": url}})

    gates = [pool.engines[name] for name in ("llava-a", "llava-b")]
    for engine in gates:
        engine.gate = asyncio.Event()
    stream = await pool.client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "hello"}], stream=True, timeout=SECONDS
    )
    texts = []
    async for event in stream:
        texts.append(event.choices[0].delta.content or "" if event.choices else "")
        if "".join(texts) == "a":
            for engine in gates:
                assert engine.gate is not None
                engine.gate.set()
    assert "".join(texts) == "a red square"


async def test_the_picker_reads_our_queues(pool: Pool) -> None:
    """A pod whose requests wait gets none while another has no queue: `mm_requests_waiting`."""
    await pool.only("llava-a", "llava-b")
    busy = pool.engines["llava-a"]
    busy.gate = asyncio.Event()
    base = f"http://{pool.addresses['llava-a']}:{GATEWAY_PORT}/v1"
    async with openai.AsyncOpenAI(base_url=base, api_key="none", max_retries=0) as direct:
        message: Any = [{"role": "user", "content": "hello"}]
        held = [
            asyncio.create_task(
                direct.chat.completions.create(model=MODEL, messages=message, timeout=SECONDS)
            )
            for _ in range(6)
        ]
        await eventually_async(lambda: busy.running == 2)
        await asyncio.sleep(1)  # the picker reads every 50 ms
        assert await pool.reached(16) == {"llava-b": 16}
        busy.gate.set()
        await asyncio.gather(*held)
    await pool.only("llava-a", "llava-b")
