"""A model that goes to zero: a real API server, operator and router, a toy gateway as its pod.

Router and pod have addresses of their own on this machine, so that their ports are those of a
cluster. What a kubelet would do the test does: it places pods, makes them ready, ends them.
"""

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx

from mm_api.contract import GATEWAY_PORT, ROUTER_METRICS_PORT, ROUTER_PORT
from support.absent_kubelet import built, inspected, pods, ready_status, set_status
from support.bound_pods import bind, empty_node
from support.ended import end
from support.eventually import eventually, eventually_async
from support.gateways import MODEL, serve, toy_gateway
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import OperatorProcess, running_operator
from support.scripted_engine import ScriptedEngine
from support.tied import tied

SERVICE, LEASE = "front", "one"
PODS = f"serving.multimodal.dev/model={MODEL},app.kubernetes.io/component"
SERVERS = f"{PODS}=server"
S = TypeVar("S", bound="Sleeping")
_ROUTER = Path(sys.executable).with_name("mm-router")


@contextmanager
def own_address() -> Iterator[str]:
    """Give this machine another address, of the network for tests of RFC 2544."""
    address = f"198.18.{random.randrange(256)}.{random.randrange(1, 255)}"  # noqa: S311
    subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"], check=True)
    try:
        yield address
    finally:
        subprocess.run(["ip", "addr", "del", f"{address}/32", "dev", "lo"], check=True)


@dataclass
class Sleeping:
    """The model and the processes around it."""

    api: Api
    folder: Path
    node: str
    router_address: str
    versions: dict[str, str]
    """Address of the gateway of pods by their label `team`; pods of others never start."""
    start_seconds: float = 0.5
    operators: ExitStack = field(default_factory=ExitStack)
    operator: OperatorProcess | None = None
    router: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{self.router_address}:{ROUTER_PORT}"

    def start_operator(self, *arguments: str) -> None:
        every = ("--scaling-interval-seconds=1", f"--router-service={SERVICE}", *arguments)
        running = running_operator(
            self.api.cluster, self.folder, self.api.namespace, lease=LEASE, arguments=every
        )
        self.operator = self.operators.enter_context(running)

    def kill_operator(self) -> None:
        assert self.operator is not None
        self.operator.kill()
        # A successor would wait until it counts as silent.
        self.api.kubectl("delete", "lease", LEASE, "--ignore-not-found")

    def start_router(self) -> None:
        command = [str(_ROUTER), f"--kubeconfig={self.api.cluster.kubeconfig}", "--lame-duck=0"]
        command += [f"--namespaces={self.api.namespace}", f"--address={self.router_address}"]
        with (self.folder / "router.log").open("ab") as log:
            self.router = subprocess.Popen(tied(command), stdout=log, stderr=log)

    def kill_router(self) -> None:
        assert self.router is not None
        self.router.kill()
        self.router.wait(60)

    def held(self) -> dict[str, int]:
        answer = httpx.get(f"http://{self.router_address}:{ROUTER_METRICS_PORT}/held", timeout=60)
        found: dict[str, int] = answer.json()["held"]
        return found

    def fall_asleep(self) -> None:
        """Take the replicas away, as the autoscaler does after a time without a request."""
        self.api.kubectl("scale", "mmm", MODEL, "--replicas=0")
        self.api.reaches(MODEL, "Ready", "ScaledToZero")
        eventually(lambda: not pods(self.api, SERVERS))

    async def play_kubelet(self) -> None:
        while True:
            with suppress(AssertionError, subprocess.CalledProcessError):
                await asyncio.to_thread(self._look_at_pods)
            await asyncio.sleep(0.2)

    def _look_at_pods(self) -> None:
        # Not by the connection that the test's own reads share: this is another thread.
        selector = f"{PODS} in (server,canary)"
        listed = json.loads(self.api.kubectl("get", "pods", "-l", selector, "-o", "json"))
        for pod in listed["items"]:
            name = pod["metadata"]["name"]
            address = self.versions.get(pod["metadata"]["labels"].get("team", ""))
            if "deletionTimestamp" in pod["metadata"]:
                self.api.kubectl("delete", "pod", name, "--force", "--grace-period=0", check=False)
            elif "nodeName" not in pod["spec"]:
                bind(self.api, pod, self.node)
            elif "podIP" not in pod["status"] and address:
                addresses = {"podIP": address, "podIPs": [{"ip": address}]}
                set_status(self.api, pod, {**ready_status(pod), **addresses})


@asynccontextmanager
async def sleeping_model(api: Api, folder: Path, **autoscaling: Any) -> AsyncIterator[Sleeping]:
    scaling = {"minReplicas": 0, "maxReplicas": 1, **autoscaling}
    engines = {"": ScriptedEngine()}
    async with served_model(Sleeping, api, folder, {"autoscaling": scaling}, engines) as site:
        yield site


@asynccontextmanager
async def served_model(
    kind: type[S], api: Api, folder: Path, spec: dict[str, Any], engines: dict[str, ScriptedEngine]
) -> AsyncIterator[S]:
    """Serve a spec; `engines`: of the gateways, by the label `team` of the pods."""
    with empty_node(api.cluster) as node, ExitStack() as stack, ExitStack() as operators:
        router = stack.enter_context(own_address())
        versions = {team: stack.enter_context(own_address()) for team in engines}
        site = kind(api, folder, node, router, versions, operators=operators)
        announce(api, router)
        assert "created" in api.apply(document(spec, MODEL))
        site.start_operator()
        site.start_router()
        async with AsyncExitStack() as gateways:
            for team, address in versions.items():
                gateway = toy_gateway(folder / address, engines[team])
                running = serve(gateway, address=address, port=GATEWAY_PORT)
                await gateways.enter_async_context(running)
            kubelet = asyncio.create_task(site.play_kubelet())
            try:
                await asyncio.to_thread(inspected, api, MODEL)
                await asyncio.to_thread(built, api)
                await asyncio.to_thread(api.reaches, MODEL, "Ready", "ReplicasAvailable")
                await eventually_async(lambda: isinstance(site.held(), dict), pause_seconds=0.2)
                yield site
            finally:
                kubelet.cancel()
                await asyncio.wait({kubelet})
                assert site.router is not None
                end(site.router)


def announce(api: Api, address: str) -> None:
    """Let the router's Service have one endpoint."""
    item = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": SERVICE, "labels": {"kubernetes.io/service-name": SERVICE}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": ROUTER_PORT}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }
    assert "created" in api.kubectl("apply", "-f", "-", stdin=json.dumps(item))
