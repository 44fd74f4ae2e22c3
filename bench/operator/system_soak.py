"""Does anything grow? Operator, router, gateways and Triton at low load, while all around changes.

    nice -n 10 python bench/operator/system_soak.py --minutes 75

The control plane, operator, router, gateways and Triton (tiny-llava, backend Reference) are real
processes; the kubelet's part is played. Two gateways with addresses of their own are in front of
one Triton: one lives from the beginning to the end, the other one is killed each five minutes.
Beside requests (`soak_traffic.py`) come edits, rollouts, pods and models that are deleted, and
faults of the API server. Processes are sampled each ten seconds, objects of the cluster each
minute; lines are fitted to what comes after the warm-up, a fifth of the time. Pools and allocators
settle for 15 minutes, so run it for 75 or more. Exit code 1: something grows (`slopes.py`
has the bounds), or a request ended as none of its kind
should. Those that a killed gateway took along are counted by themselves: the router sends no
request again that may have run.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests"), str(ROOT / "bench" / "runtime")]

import aiohttp  # noqa: E402 - tests and benches are no packages
from faulty_server import FaultyServer, faulty_server  # noqa: E402
from harness import (  # noqa: E402
    NAMESPACE,
    OperatorProcess,
    client_of,
    control_plane,
    kubectl,
    machine,
    model,
    write_result,
)
from kubelet import Kubelet  # noqa: E402
from placed_kubelet import NODE, SERVED, PlacedKubelet  # noqa: E402
from slopes import BOUNDS, Sampler, growing  # noqa: E402
from soak_traffic import Traffic  # noqa: E402

from mm_api import labels  # noqa: E402
from mm_api.contract import (  # noqa: E402
    GATEWAY_PORT,
    METRICS_PORT,
    ROUTER_METRICS_PORT,
    ROUTER_PORT,
)
from mm_api.documents.serving_plan import ServingPlan  # noqa: E402
from mm_devcluster.cluster import ClusterInfo  # noqa: E402
from mm_operator.cluster.client import Client  # noqa: E402
from mm_operator.cluster.resources import (  # noqa: E402
    CONFIG,
    DEPLOYMENT,
    JOB,
    MODEL,
    POD,
    SERVICE,
)
from mm_operator.errors import ClusterError  # noqa: E402
from support.ended import end  # noqa: E402
from support.ports import free_ports  # noqa: E402
from support.sleeping_models import own_address  # noqa: E402
from support.tied import tied  # noqa: E402
from support.tiny_llava import BuiltEngine, build_engine  # noqa: E402

SAMPLE_SECONDS = 10.0
OBJECTS_SECONDS = 60.0
REPORT_SECONDS = 600.0
OTHERS = range(1, 7)
"""Numbers of models that have no server: operator and router see them change."""
_PERIODS = {"edit": 25.0, "rollout": 240.0, "pod": 180.0, "gateway": 300.0, "api": 210.0}
"""Seconds between two events of a kind. Chosen: the first 250 s have one of each."""
_API_FAULTS = ("cut", "expired", "429", "500", "lost-answer")
_API_SECONDS = 4.0


class Site:
    """The served processes, by their addresses."""

    def __init__(self, stack: ExitStack, folder: Path, cluster: ClusterInfo) -> None:
        self._stack = stack
        self._folder = folder
        self.cluster = cluster
        self.engine: BuiltEngine = build_engine(folder)
        plan = ServingPlan.from_json(self.engine.serving.read_bytes())
        self.serving = folder / "served.json"
        self.serving.write_text(plan.model_copy(update={"model": SERVED}).to_json())
        self.steady, self.killed, router = (stack.enter_context(own_address()) for _ in range(3))
        self.url = f"http://{router}:{ROUTER_PORT}"
        self.router = router
        self._triton = free_ports(2)
        self.gateways: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        """Start a process that ends with this one."""
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(tied(command), stdout=log, stderr=log)
        self._stack.callback(end, process)
        return process

    def _runtime(self, role: str) -> list[str]:
        documents = ["--manifest", str(self.engine.manifest), "--serving", str(self.serving)]
        return [sys.executable, "-m", "mm_runtime", role, *documents]

    def start_triton(self) -> subprocess.Popen[bytes]:
        """Start the server of both gateways."""
        http, grpc = map(str, self._triton)
        ports = ["--http-port", http, "--grpc-port", grpc, "--page-address", self.steady]
        repository = ["--repository", str(self._folder / "triton")]
        command = [*self._runtime("serve"), *repository, *ports, "--gateway-port", "0"]
        return self.start("triton", command)

    def start_gateway(self, address: str) -> None:
        """Start a gateway at its address."""
        metrics = f"{self.steady}:{METRICS_PORT}"
        triton = ["--triton", f"127.0.0.1:{self._triton[1]}", "--server-metrics", metrics]
        command = [*self._runtime("gateway"), *triton, "--address", address]
        self.gateways[address] = self.start(f"gateway-{address}", command)

    def start_router(self, kubeconfig: Path) -> subprocess.Popen[bytes]:
        """Start the router, which reads the cluster by a kubeconfig."""
        program = str(Path(sys.executable).with_name("mm-router"))
        return self.start(
            "router", [program, f"--kubeconfig={kubeconfig}", f"--address={self.router}"]
        )

    async def ready(self, address: str) -> None:
        """Wait until a gateway says that it is ready."""
        await answers(f"http://{address}:{GATEWAY_PORT}/readyz")


async def answers(url: str, limit_seconds: float = 240) -> None:
    """Wait until a page answers 200."""
    async with asyncio.timeout(limit_seconds), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(url) as answer:
                    if answer.status == 200:  # noqa: PLR2004
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.5)


class Events:
    """What happens around the requests."""

    def __init__(
        self,
        client: Client,
        server: FaultyServer,
        site: Site,
        kubelet: PlacedKubelet,
        traffic: Traffic,
        *,
        seed: int,
    ) -> None:
        self._client = client
        self._server = server
        self._site = site
        self._kubelet = kubelet
        self._random = random.Random(f"events/{seed}")  # noqa: S311  # reproducible
        self._memory = 4
        self._traffic = traffic
        self.counted: Counter[str] = Counter()

    async def run(self) -> None:
        """Let them happen until cancelled."""
        happen: dict[str, Callable[[], Awaitable[str]]] = {
            "edit": self._edit,
            "rollout": self._roll_out,
            "pod": self._delete_pod,
            "gateway": self._kill_gateway,
            "api": self._fault,
        }
        async with asyncio.TaskGroup() as group:
            for kind, event in happen.items():
                group.create_task(self._repeat(_PERIODS[kind], event))

    async def _repeat(self, period: float, event: Callable[[], Awaitable[str]]) -> None:
        while True:
            await asyncio.sleep(period * self._random.uniform(0.8, 1.2))
            try:
                self.counted[await event()] += 1
            except ClusterError as error:
                self.counted[f"refused by the API server ({error.status})"] += 1

    async def create(self, number: int) -> None:
        """Create a model."""
        document = model(number)
        document["metadata"]["name"] = f"model-{number:05}"
        if number == 0:
            objectives = [{"metric": "TimeToFirstToken", "percentile": 95, "target": "5s"}]
            scaling = {"minReplicas": 2, "maxReplicas": 3, "objectives": objectives}
            document["spec"]["autoscaling"] = scaling
        await self._client.create(MODEL, NAMESPACE, document)

    async def _edit(self) -> str:
        chosen = self._random
        name = f"model-{(number := chosen.choice(OTHERS)):05}"
        kind = chosen.choice(("scaled", "changed", "built again", "made again", "child deleted"))
        # Four specs of a model, no more: the operator remembers 256, which would look like a leak.
        specs: dict[str, dict[str, Any]] = {
            "scaled": {**_spec(4), "replicas": 2},
            "changed": _spec(5),
            "built again": {**_spec(4), "engine": {"maxBatchSize": 8}},
        }
        if kind in specs:
            await self._client.merge(MODEL, NAMESPACE, name, {"spec": specs[kind]})
        elif kind == "made again":
            await self._client.delete(MODEL, NAMESPACE, name)
            await asyncio.sleep(3)
            await self.create(number)
        else:
            resource = chosen.choice((CONFIG, SERVICE, DEPLOYMENT))
            selector = f"{labels.MODEL}={name}"
            pages = self._client.list(resource, NAMESPACE, selector=selector)
            for child in [item async for page, _ in pages for item in page]:
                await self._client.delete(resource, NAMESPACE, child["metadata"]["name"])
        return f"model {kind}"

    async def _roll_out(self) -> str:
        self._memory = 9 - self._memory
        spec = {"runtime": _spec(self._memory)["runtime"]}
        await self._client.merge(MODEL, NAMESPACE, SERVED, {"spec": spec})
        return "rollout of the served model"

    async def _delete_pod(self) -> str:
        if self._kubelet.pods:
            name = self._random.choice(list(self._kubelet.pods))
            await self._client.delete(POD, NAMESPACE, name)
        return "pod of the served model deleted"

    async def _kill_gateway(self) -> str:
        address = self._site.killed
        process = self._site.gateways[address]
        self._traffic.kills += 1
        process.kill()
        await asyncio.to_thread(process.wait, 60)
        self._traffic.kills += 1  # until then it took requests that it did not read
        await self._pods_are(address, "False")
        await asyncio.to_thread(self._site.start_gateway, address)
        await self._site.ready(address)
        await self._pods_are(address, "True")
        return "gateway killed"

    async def _pods_are(self, address: str, ready: str) -> None:
        conditions = [{"type": kind, "status": ready} for kind in ("Ready", "ContainersReady")]
        conditions += [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized")]
        for name in [pod for pod, at in self._kubelet.pods.items() if at == address]:
            pod = {"metadata": {"namespace": NAMESPACE, "name": name}}
            await Kubelet.report(self._kubelet, pod, {"conditions": conditions})

    async def _fault(self) -> str:
        fault = self._random.choice(_API_FAULTS)
        self._server.become(fault)
        await asyncio.sleep(_API_SECONDS)
        self._server.become("")
        return f"API server: {fault}"


def _spec(gibibytes: int) -> dict[str, Any]:
    memory = {"resources": {"limits": {"memory": f"{gibibytes}Gi"}}}
    return {"replicas": 1, "runtime": memory, "engine": {"maxBatchSize": 4}}


class Measuring:
    """Samples processes, their metrics and the cluster's objects until the time is over."""

    def __init__(self, sampler: Sampler, client: Client, pages: Mapping[str, str]) -> None:
        self._sampler = sampler
        self._client = client
        self._pages = pages
        self.failed = ""
        """Why the measurement ended early."""

    async def run(self, minutes: float, report: Callable[[], object]) -> None:
        """Measure; log what was found each ten minutes."""
        began = time.monotonic()
        looked = reported = 0.0
        timeout = aiohttp.ClientTimeout(total=SAMPLE_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while (at := time.monotonic() - began) < minutes * 60:
                try:
                    await asyncio.to_thread(self._sampler.look, at)
                    await self._count_series(session, at)
                except (OSError, aiohttp.ClientError) as error:
                    self.failed = f"after {at:.0f} s: {error!r}"
                    return
                if at - looked >= OBJECTS_SECONDS:
                    looked = at
                    await self._count_objects(at)
                if at - reported >= REPORT_SECONDS:
                    reported = at
                    print(f"{at / 60:.0f} min: {report()}", file=sys.stderr, flush=True)
                taken = time.monotonic() - began - at
                await asyncio.sleep(max(0.0, SAMPLE_SECONDS - taken))

    async def _count_series(self, session: aiohttp.ClientSession, at: float) -> None:
        for name, page in self._pages.items():
            async with session.get(page) as answer:
                text = await answer.text()
            # The first answer of a code makes a series: codes are few, and come late.
            lines = [one for one in text.splitlines() if 'code="' not in one and one[:1] != "#"]
            series = len(lines)
            self._sampler.add(name, "metric_series", at, series)

    async def _count_objects(self, at: float) -> None:
        for resource in (CONFIG, SERVICE, JOB, DEPLOYMENT):  # others follow the replicas
            pages = self._client.list(resource, NAMESPACE, metadata_only=True)
            number = sum([len(page) async for page, _ in pages])
            self._sampler.add(f"cluster/{resource.plural}", "objects", at, number)


async def soak(options: argparse.Namespace) -> dict[str, Any]:
    """Run the site for as long as wanted; return the result."""
    started_on = machine()
    async with AsyncExitStack() as stack:
        folder = Path(options.keep or stack.enter_context(tempfile.TemporaryDirectory()))
        counts = folder / "counts"
        counts.mkdir(parents=True)
        cluster = stack.enter_context(control_plane(f"bench-soak-{os.getpid()}"))
        kubectl(cluster, "create", "-f", _node(folder))
        client = await stack.enter_async_context(client_of(cluster))
        server, kubeconfig = await stack.enter_async_context(
            faulty_server(cluster, folder, str(options.seed))
        )
        site = await asyncio.to_thread(Site, stack.enter_context(ExitStack()), folder, cluster)
        os.environ["PYTHONPATH"] = str(Path(__file__).with_name("counted"))
        os.environ["MM_SOAK_COUNTS"] = str(counts)
        if options.collect:
            os.environ["MM_SOAK_COLLECT"] = "yes"
        triton = site.start_triton()
        for address in (site.steady, site.killed):
            site.start_gateway(address)
        arguments = ("--kubeconfig", str(kubeconfig), "--no-scrape-annotations")
        operator = await asyncio.to_thread(
            OperatorProcess, cluster, folder / "operator.log", *arguments
        )
        stack.push_async_callback(asyncio.to_thread, operator.stop)
        router = site.start_router(kubeconfig)
        kubelet = PlacedKubelet(client, cluster, (site.steady, site.killed))
        traffic = Traffic(site.url, f"{NAMESPACE}/{SERVED}", options.rate, options.seed)
        events = Events(client, server, site, kubelet, traffic, seed=options.seed)
        tasks = [asyncio.create_task(kubelet.run())]
        stack.push_async_callback(_cancelled, tasks)
        for number in (0, *OTHERS):
            await events.create(number)
        for address in (site.steady, site.killed):
            await site.ready(address)
        await _served(site)
        roots = {
            "operator": operator.pid,
            "router": router.pid,
            "gateway": site.gateways[site.steady].pid,
            "triton": triton.pid,
        }
        pages = {
            "operator": f"http://127.0.0.1:{operator.port}/metrics",
            "router": f"http://{site.router}:{ROUTER_METRICS_PORT}/metrics",
            "gateway": f"http://{site.steady}:{GATEWAY_PORT}/metrics",
            "triton": f"http://{site.steady}:{METRICS_PORT}/metrics",
        }
        sampler = Sampler(roots, counts)
        await traffic.burst()
        tasks += [asyncio.create_task(one) for one in (traffic.run(), events.run())]
        warm_up = options.minutes * 60 * options.warm_up

        def report() -> object:
            enough = len(sampler.moments) * SAMPLE_SECONDS > warm_up + REPORT_SECONDS / 2
            grows = growing(sampler.fitted(warm_up)) if enough else []
            return grows, traffic.unexpected(), dict(events.counted)

        measurement = Measuring(sampler, client, pages)
        measuring = asyncio.create_task(measurement.run(options.minutes, report))
        await asyncio.wait([measuring, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in (*tasks, measuring):
            if task.done():
                task.result()  # raises what ended it
        lines = sampler.fitted(warm_up)
        return {
            "command": f"bench/operator/system_soak.py --minutes {options.minutes:g}"
            + " --collect" * options.collect,
            "date": datetime.now(UTC).date().isoformat(),
            "machine": started_on,
            "note": options.note,
            "minutes": round(sampler.moments[-1] / 60, 1),
            "warm_up_minutes": round(warm_up / 60, 1),
            "samples": len(sampler.moments),
            "requests_a_second": options.rate,
            "requests": traffic.by_kind(),
            "failed": measurement.failed,
            "lost_with_a_killed_gateway": traffic.lost(),
            "unexpected": traffic.unexpected(),
            "events": dict(sorted(events.counted.items())),
            "requests_of_operator_and_router_that_met_a_fault": server.met,
            "bounds_per_hour": BOUNDS,
            "grows": growing(lines),
            "undecided": growing(lines, surely=False),
            "processes": lines,
        }


async def _served(site: Site) -> None:
    """Wait until the router has both replicas."""
    await answers(f"{site.url}/v1/models/{NAMESPACE}/{SERVED}")


async def _cancelled(tasks: "list[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _node(folder: Path) -> str:
    path = folder / "node.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}))
    return str(path)


def main() -> int:
    """Soak; exit code 1 when something grows or has ended, or a request ended as none should."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--rate", type=float, default=1.5, help="requests a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--warm-up", type=float, default=0.2, help="part of the time")
    parser.add_argument(
        "--collect",
        action="store_true",
        help="collect Python's garbage before each count: what grows then is no garbage that waits",
    )
    parser.add_argument("--keep", help="a folder that is made for logs and counts")
    parser.add_argument("--note", default="", help="what else the machine did")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    result = asyncio.run(soak(options))
    write_result("system_soak_collected" if options.collect else "system_soak", result)
    return 1 if result["grows"] or result["failed"] or result["unexpected"] else 0


if __name__ == "__main__":
    sys.exit(main())
