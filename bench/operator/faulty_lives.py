"""A thousand faults in the lives of models: is everything right within 60 s, and done once?

    python bench/operator/faulty_lives.py --scenarios 1000 --seed 1
    python bench/operator/faulty_lives.py --seed 1 --only 17      one round again, as it was

The control plane and both operators are real; the kubelet's part is played by `kubelet.py`, and
the operators reach the API server through `faulty_server.py`. A round is a namespace with some
models, each with its own life (created, scaled, changed, built again, deleted, deleted and made
again, children deleted by a stranger), and one fault that meets them at a moment of it.

After each round: every model that is wanted is Ready in every condition of its generation, has the
replicas of its spec and one Deployment; of others nothing is left; no inputs had two builds, but
for a model that was made again; one operator leads. What does not hold is in the result, with its
round.

A round takes 9 s with a fault of the API server and up to 17 s where the Lease has to run out,
nearly all of it waiting, so lanes play beside each other, each on a control plane of its own with
two thirds of a core. The first round of a lane takes 30 s more where models are deleted: for so
long Kubernetes' garbage collector does not know a new kind.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from faulty_server import FAULTS, FaultyServer, faulty_server
from fleet import WatchCache, is_right
from harness import OperatorProcess, client_of, control_plane, kubectl, machine, model, write_result
from kubelet import Kubelet

from mm_api import labels
from mm_devcluster.cluster import ClusterInfo
from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import (
    CHILDREN,
    CONFIG,
    DEPLOYMENT,
    JOB,
    MODEL,
    POD,
    SERVICE,
)

MODELS_OF_A_ROUND = 10
LIMIT_SECONDS = 60.0
"""After the end of a fault, as the goal has it; and after each step of the last life."""
_ENGINES = 100_000
"""Each model has a checkpoint of its own."""
_PROCESS_FAULTS = ("kill-leader", "kill-both", "stop-leader", "restart-leader")
_LIVES = ("stays", "scaled", "changed", "built-again", "deleted", "made-again", "child-deleted")
_PAUSED_SECONDS = 30.0
"""The Lease has 8 s: the other replica leads when the paused one wakes."""


@dataclass
class Life:
    """One model, and what becomes of it."""

    number: int
    kind: str
    moment: float
    """Seconds after its creation at which `kind` happens."""
    made: int = 1
    """How often it was created: a model that was made again may build again."""

    @property
    def name(self) -> str:
        """Return the model's name; the kubelet's part reads the checkpoint's number from it."""
        return f"model-{self.number:05}"

    @property
    def is_wanted(self) -> bool:
        """Return whether the model exists at the end."""
        return self.kind != "deleted"


class Operators:
    """Two replicas, as a Deployment keeps them: one that ends is started again."""

    def __init__(self, cluster: ClusterInfo, kubeconfig: Path, folder: Path) -> None:
        self._cluster = cluster
        self._arguments = ("--kubeconfig", str(kubeconfig), "--resync-seconds", "120")
        self._folder = folder
        self._started = 0
        self.running: list[OperatorProcess] = []

    def _start(self) -> OperatorProcess:
        self._started += 1
        log = self._folder / f"operator-{self._started}.log"
        return OperatorProcess(self._cluster, log, *self._arguments)

    def start(self) -> None:
        """Start both."""
        for _ in range(2):
            self.running.append(self._start())

    def leader(self) -> int:
        """Return which of the two leads, as their metrics say; 0 where neither does."""
        for number, one in enumerate(self.running):
            if _leads(one):
                return number
        return 0

    def leaders(self) -> int:
        """Return how many lead; one that ended by itself is started again first."""
        for number, one in enumerate(self.running):
            if one.ended():
                self.running[number] = self._start()
        return sum(_leads(one) for one in self.running)

    def replace(self, number: int, how: signal.Signals) -> None:
        """End a replica and start another one in its place."""
        self.running[number].stop(how)
        self.running[number] = self._start()

    def make_namespace(self, name: str) -> None:
        """Create a namespace, by no operator's way to the API server."""
        kubectl(self._cluster, "create", "namespace", name)

    def remove_namespace(self, name: str) -> None:
        """Delete a namespace without a wait."""
        kubectl(self._cluster, "delete", "namespace", name, "--wait=false")

    def stop(self) -> None:
        """End both."""
        for one in self.running:
            one.stop()


class Round:
    """Some lives in a namespace, and a fault."""

    def __init__(self, seed: int, number: int) -> None:
        chosen = random.Random(f"{seed}/{number}")  # noqa: S311  # reproducible
        self.number = number
        self.namespace = f"round-{number:05}"
        self.fault = chosen.choice((*FAULTS, *_PROCESS_FAULTS))
        self.begins = chosen.uniform(0.0, 6.0)
        self.lasts = chosen.uniform(0.5, 8.0)
        first = number * MODELS_OF_A_ROUND
        self.lives = [
            Life(first + place, chosen.choice(_LIVES), chosen.uniform(0.0, 8.0))
            for place in range(MODELS_OF_A_ROUND)
        ]
        self.child = chosen.choice((CONFIG, SERVICE, JOB, DEPLOYMENT))


class Bench:
    """Plays rounds on one control plane and judges each."""

    def __init__(self, client: Client, server: FaultyServer, operators: Operators) -> None:
        self._client = client
        self.server = server
        self.operators = operators
        self.models = WatchCache(client, MODEL)
        self.builds: dict[tuple[str, str, str], set[str]] = {}
        """Namespace, model and inputs -> uids of the Jobs that built them."""
        self._jobs = WatchCache(client, JOB, f"{labels.APP_COMPONENT}={labels.Component.BUILD}")
        self._jobs_put = self._jobs.put
        self._jobs.put = self._built  # type: ignore[method-assign]

    def watches(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return what has to run beside the rounds."""
        return self.models.run(), self._jobs.run()

    def _built(self, kind: str, item: dict[str, Any]) -> None:
        metadata = item["metadata"]
        notes = metadata.get("annotations", {})
        if labels.MADE_FOR in notes:
            key = metadata["namespace"], notes[labels.MADE_FOR], notes[labels.INPUTS_HASH]
            self.builds.setdefault(key, set()).add(metadata["uid"])
        self._jobs_put(kind, item)

    async def play(self, one: Round) -> tuple[list[str], float]:
        """Play a round; return what does not hold, and the seconds until all held."""
        await asyncio.to_thread(self.operators.make_namespace, one.namespace)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._strike(one))
            for life in one.lives:
                group.create_task(self._live(one, life))
        began = time.monotonic()
        broken = await self._until_right(one, began)
        return broken, time.monotonic() - began

    async def _strike(self, one: Round) -> None:
        await asyncio.sleep(one.begins)
        if one.fault in FAULTS:
            self.server.become(one.fault)
            await asyncio.sleep(one.lasts)
            self.server.become("")
            return
        operators = self.operators
        leader = await asyncio.to_thread(operators.leader)
        match one.fault:
            case "kill-leader":
                await asyncio.to_thread(operators.replace, leader, signal.SIGKILL)
            case "restart-leader":
                await asyncio.to_thread(operators.replace, leader, signal.SIGTERM)
            case "kill-both":
                kills = [
                    asyncio.to_thread(operators.replace, number, signal.SIGKILL)
                    for number in (0, 1)
                ]
                await asyncio.gather(*kills)
            case "stop-leader":
                paused, other = operators.running[leader], operators.running[1 - leader]
                paused.send(signal.SIGSTOP)
                await _until_it_leads(other)
                paused.send(signal.SIGCONT)

    async def _live(self, one: Round, life: Life) -> None:
        document = model(life.number)
        document["metadata"] = {"name": life.name, "namespace": one.namespace}
        await self._client.create(MODEL, one.namespace, document)
        await asyncio.sleep(life.moment)
        place = one.namespace, life.name
        match life.kind:
            case "scaled":
                await self._patch(place, {"replicas": 3})
            case "changed":
                limits = {"resources": {"limits": {"memory": "5Gi"}}}
                await self._patch(place, {"runtime": limits})
            case "built-again":
                await self._patch(place, {"engine": {"maxBatchSize": 8}})
            case "deleted":
                await self._client.delete(MODEL, *place)
            case "made-again":
                await self._client.delete(MODEL, *place)
                life.made = 2
                await self._client.create(MODEL, one.namespace, document)
            case "child-deleted":
                life.made = 2  # a stranger who deletes a Job has it made again
                selector = f"{labels.MODEL}={life.name}"
                for child in await self._objects(one.child, one.namespace, selector):
                    await self._client.delete(one.child, *_place(child))

    async def _patch(self, place: tuple[str, str], spec: dict[str, Any]) -> None:
        await self._client.merge(MODEL, *place, {"spec": spec})

    async def _objects(self, kind: Any, namespace: str, selector: str) -> list[dict[str, Any]]:
        pages = self._client.list(kind, namespace, selector=selector)
        return [item async for page, _ in pages for item in page]

    async def _until_right(self, one: Round, began: float) -> list[str]:
        broken: list[str] = ["not looked yet"]
        while broken and time.monotonic() - began < LIMIT_SECONDS:
            await asyncio.sleep(0.5)
            broken = self._not_ready(one) or await self._judge(one)
        return broken

    def _not_ready(self, one: Round) -> list[str]:
        found = []
        for life in one.lives:
            item = self.models.items.get((one.namespace, life.name))
            if life.is_wanted and (item is None or not is_right(item)):
                found.append(f"{life.name} ({life.kind}) is not right: {_reasons(item)}")
            if not life.is_wanted and item is not None:
                found.append(f"{life.name} was deleted and is there")
        return found

    async def _judge(self, one: Round) -> list[str]:
        found = []
        wanted = {
            life.name: self.models.items[one.namespace, life.name]
            for life in one.lives
            if life.is_wanted
        }
        servers: dict[str, list[int]] = {}
        for kind in (*CHILDREN, POD):
            for item in await self._objects(kind, one.namespace, labels.MODEL):
                name = item["metadata"]["labels"][labels.MODEL]
                if kind is DEPLOYMENT:
                    servers.setdefault(name, []).append(item["spec"]["replicas"])
                if name not in wanted:
                    found.append(f"{kind.kind} {item['metadata']['name']} has no model")
        for name, kept in wanted.items():
            replicas, ready = kept["spec"]["replicas"], kept["status"].get("readyReplicas")
            if (numbers := servers.get(name, [])) != [replicas] or ready != replicas:
                found.append(f"{name}: {replicas} wanted, has {numbers}, {ready} ready")
        made = {life.name: life.made for life in one.lives}
        for (namespace, name, inputs), uids in self.builds.items():
            if namespace == one.namespace and len(uids) > made[name]:
                found.append(f"{name}: {len(uids)} builds of {inputs}")
        if (leaders := await asyncio.to_thread(self.operators.leaders)) != 1:
            found.append(f"{leaders} operators lead")
        return found


def _place(item: dict[str, Any]) -> tuple[str, str]:
    return item["metadata"]["namespace"], item["metadata"]["name"]


def _reasons(item: Any) -> str:
    conditions = ((item or {}).get("status") or {}).get("conditions", ())
    return " ".join(f"{one['type']}={one['status']}/{one['reason']}" for one in conditions)


@asynccontextmanager
async def made_bench(seed: str, folder: Path, lane: int) -> AsyncIterator[Bench]:
    """A control plane of its own, and what plays on it."""
    async with AsyncExitStack() as stack:
        cluster = stack.enter_context(control_plane(f"bench-faults-{os.getpid()}-{lane}"))
        client = await stack.enter_async_context(client_of(cluster))
        server, kubeconfig = await stack.enter_async_context(faulty_server(cluster, folder, seed))
        operators = Operators(cluster, kubeconfig, folder)
        stack.push_async_callback(asyncio.to_thread, operators.stop)
        await asyncio.to_thread(operators.start)
        bench = Bench(client, server, operators)
        for work in (*bench.watches(), Kubelet(client, _ENGINES).run()):
            task = asyncio.create_task(work)
            task.add_done_callback(_report)
            stack.push_async_callback(_ended, task)
        yield bench


class Record:
    """The result so far, of all lanes."""

    def __init__(self) -> None:
        self.faults: Counter[str] = Counter()
        self.longest: dict[str, float] = {}
        self.broken: list[dict[str, Any]] = []

    def add(self, one: Round, broken: list[str], seconds: float) -> None:
        """Add a round, and print it."""
        self.faults[one.fault] += len(one.lives)
        self.longest[one.fault] = max(self.longest.get(one.fault, 0.0), round(seconds, 1))
        self.broken += [{"round": one.number, "fault": one.fault, "what": it} for it in broken]
        line = f"{one.number} {one.fault}: {seconds:.1f} s {broken[:3]}"
        print(line, file=sys.stderr, flush=True)


async def play(options: argparse.Namespace) -> dict[str, Any]:
    """Play the rounds that are wanted, each lane on a control plane of its own."""
    numbers = list(range(-(-options.scenarios // MODELS_OF_A_ROUND)))
    if options.only is not None:
        numbers = [options.only]
    began, found = time.monotonic(), Record()
    started_on = machine()
    waiting = deque(numbers)
    async with AsyncExitStack() as stack:
        root = Path(options.logs or stack.enter_context(tempfile.TemporaryDirectory()))
        benches = []
        for lane in range(min(options.lanes, len(numbers))):
            (folder := root / f"lane-{lane}").mkdir()
            made = made_bench(f"{options.seed}/{lane}", folder, lane)
            benches.append(await stack.enter_async_context(made))
        async with asyncio.TaskGroup() as group:
            for bench in benches:
                group.create_task(_play_lane(bench, options.seed, waiting, found))
        return {
            "command": " ".join(["bench/operator/faulty_lives.py", *sys.argv[1:]]),
            "date": datetime.now(UTC).date().isoformat(),
            "machine": started_on,
            "note": options.note,
            "scenarios": found.faults.total(),
            "minutes": round((time.monotonic() - began) / 60, 1),
            "by_fault": dict(sorted(found.faults.items())),
            "requests_that_met_a_fault": sum(bench.server.met for bench in benches),
            "longest_seconds": found.longest,
            "broken": found.broken,
            "resident_bytes": [
                one.resident_bytes() for bench in benches for one in bench.operators.running
            ],
        }


async def _play_lane(bench: Bench, seed: int, waiting: deque[int], found: Record) -> None:
    while waiting:
        one = Round(seed, waiting.popleft())
        broken, seconds = await bench.play(one)
        found.add(one, broken, seconds)
        if not broken:
            await asyncio.to_thread(bench.operators.remove_namespace, one.namespace)


def _leads(one: OperatorProcess) -> bool:
    with suppress(OSError):
        return "mm_operator_leader 1.0" in one.metrics()
    return False


async def _until_it_leads(one: OperatorProcess) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_PAUSED_SECONDS):
            while not await asyncio.to_thread(_leads, one):  # noqa: ASYNC110  # another process
                await asyncio.sleep(0.5)


def _report(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()):
        traceback.print_exception(error)


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def main() -> int:
    """Play; exit code 1 when something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenarios", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=2, help="control planes beside each other")
    parser.add_argument("--only", type=int, metavar="ROUND", help="this round alone")
    parser.add_argument("--logs", help="an existing folder that keeps the operators' logs")
    parser.add_argument("--note", default="", help="what else the machine did")
    options = parser.parse_args()
    result = asyncio.run(play(options))
    if options.only is None:
        write_result("faults", result)
    else:
        print(json.dumps(result, indent=2))
    return 1 if result["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
