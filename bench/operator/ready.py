"""N models that are Ready, and what keeps them so: start, rest, touch, fail-over, restart, resync.

Run: `.venv/bin/python bench/operator/ready.py --models 1000` (about 12 minutes). The kubelet's part
is played by `kubelet.py`; every controller is the real one. The last phase takes the API server
away, puts a stranger's certificate at its address, and queries the operator to end.
"""

import argparse
import asyncio
import json
import math
import os
import signal
import sys
import tempfile
import time
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

from fleet import Fleet, WatchCache, create, deployments, scale, until_applied, until_right
from harness import (
    RESULTS,
    OperatorProcess,
    client_of,
    control_plane,
    cpu_seconds_by_part,
    machine,
    write_result,
)
from kubelet import Kubelet
from phase import Phase, Quiet
from stranger import stranger_at

from mm_devcluster.cluster import ClusterInfo, down
from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import MODEL

GOALS = {
    "ready_seconds": 150.0,
    "writes_per_model": 15.0,
    "touch_seconds": 3.0,
    "restart_seconds": 8.0,
    "fail_over_seconds": 12.0,
    "sigterm_seconds": 10.0,
    "lag_p99_seconds": 0.05,
    "lag_max_seconds": 0.25,
    "resident_bytes": 200_000_000,
}
"""Of 1,000 models on two cores that do nothing else."""
_THOUSAND = 1000
"""Also the models of a namespace unless `--stores` says otherwise: each has two pods, and
Kubernetes is tested with 3,000 pods in a namespace (its scalability thresholds)."""
_GROWTH = 3.3
"""3,000 models may take this many times as long as 1,000; more or fewer in proportion."""
_OF_ANY_SIZE = frozenset(
    {"writes_per_model", "sigterm_seconds", "lag_p99_seconds", "lag_max_seconds"}
)

_RESYNC_SECONDS = 45.0
"""Of the restarted operator: long enough to settle before the first one."""
_GOGC = "400"
"""Of the control plane, which shares two cores with the operator: a quarter less CPU for memory."""
_NEVER = ("--resync-seconds", "3600")
_CLUSTER = f"bench-ready-{os.getpid()}"
"""Of its own: at its end a bench takes down the cluster of its name."""


class Bench:
    """One fleet, the operators that keep it, and the numbers of each phase."""

    def __init__(self, cluster: ClusterInfo, client: Client, fleet: Fleet, folder: Path) -> None:
        self._cluster = cluster
        self._client = client
        self._fleet = fleet
        self._folder = folder
        self._cache = WatchCache(client, MODEL)
        self._stack = ExitStack()
        self.phases: dict[str, Any] = {}

    async def run(self, *, rest_seconds: float, touched: int, limit_seconds: float) -> None:
        """Run every phase; what was measured before a failure stays in `phases`."""
        kubelet = Kubelet(self._client, self._fleet.engines)
        async with AsyncExitStack() as tasks:
            for work in (kubelet.run(), self._cache.run()):
                tasks.push_async_callback(_ended, asyncio.create_task(work))
            with self._stack:
                operator = self._operator("first", *_NEVER)
                await self._start(operator, limit_seconds)
                await self._rest(operator, rest_seconds)
                await self._touch(operator, touched)
                operator = await self._fail_over(operator, touched)
                operator.stop()
                operator = self._operator("third", "--resync-seconds", str(_RESYNC_SECONDS))
                await self._restart(operator)
                await self._resync(operator)
                await self._end_without_api_server(operator)

    def _operator(self, name: str, *arguments: str) -> OperatorProcess:
        operator = OperatorProcess(self._cluster, self._folder / f"{name}.log", *arguments)
        self._stack.callback(operator.stop)
        return operator

    async def _start(self, operator: OperatorProcess, limit_seconds: float) -> None:
        phase = Phase(operator)
        await create(self._client, self._fleet)
        created = time.monotonic() - phase.started
        try:
            await until_right(self._cache, self._fleet, limit_seconds)
        except TimeoutError as error:
            self._note("all_ready", phase.end() | {"failed": str(error)})
            raise
        seconds = time.monotonic() - phase.started
        quiet = await _quiet(operator)
        numbers = phase.end(seconds)
        numbers["seconds_to_create"] = round(created, 1)
        numbers["seconds_until_quiet"] = round(quiet - phase.started, 1)
        numbers["writes_per_model"] = round(numbers["writes"] / self._fleet.models, 2)
        parts = cpu_seconds_by_part(self._cluster, operator)
        numbers["cpu_seconds_by_part"] = {name: round(value, 1) for name, value in parts.items()}
        self._note("all_ready", numbers)

    async def _rest(self, operator: OperatorProcess, seconds: float) -> None:
        phase, changes = Phase(operator), self._cache.changes
        await asyncio.sleep(seconds)
        numbers = phase.end()
        numbers["statuses_that_changed"] = self._cache.changes - changes
        self._note("rest", numbers)

    async def _touch(self, operator: OperatorProcess, count: int) -> None:
        """Change `spec.replicas` of some models at once."""
        async with deployments(self._client) as cache:
            phase = Phase(operator)
            wanted = dict.fromkeys(list(self._fleet.names())[:count], 2)
            await asyncio.gather(*(scale(self._client, name, 2) for name in wanted))
            sent = time.monotonic()
            applied = await until_applied(cache, wanted, 60)
        await until_right(self._cache, self._fleet, 120)
        right = time.monotonic()
        await _quiet(operator)
        numbers = phase.end(applied - phase.started)
        numbers["models"] = count
        numbers["seconds_to_send"] = round(sent - phase.started, 2)
        numbers["seconds_until_the_statuses_are_right"] = round(right - phase.started, 1)
        self._note("touch", numbers)

    async def _fail_over(self, first: OperatorProcess, count: int) -> OperatorProcess:
        """Kill the leader of two replicas while models change; return the one that leads then."""
        second = self._operator("second", *_NEVER)
        await _quiet(second)
        phase = Phase(second)
        wanted = dict.fromkeys(list(self._fleet.names())[-count:], 3)
        before = dict(list(wanted.items())[: count // 4])
        for name in before:
            await scale(self._client, name, 3)
        first.stop(signal.SIGKILL)
        killed = time.monotonic()
        missed = dict(list(wanted.items())[count // 4 : count // 2])
        async with deployments(self._client) as cache, asyncio.TaskGroup() as group:
            for name in missed:
                await scale(self._client, name, 3)
            led = group.create_task(until_applied(cache, missed, 120))
            for name in list(wanted)[count // 2 :]:  # until the other replica leads, and later
                await scale(self._client, name, 3)
                await asyncio.sleep(30 / count)
            applied = await until_applied(cache, wanted, 120)
        await until_right(self._cache, self._fleet, 120)
        await _quiet(second)
        numbers = phase.end(led.result() - killed)  # what changed at once after the kill
        numbers["seconds_of_all_changes"] = round(applied - killed, 1)
        numbers["models"] = len(wanted)
        numbers["changes_that_were_lost"] = 0  # until_applied and until_right raise otherwise
        self._note("fail_over", numbers)
        return second

    async def _restart(self, operator: OperatorProcess) -> None:
        quiet = await _quiet(operator)
        numbers = Phase(operator, entire_life=True).end(quiet - operator.started)
        numbers["seconds_until_it_serves"] = round(operator.serving - operator.started, 1)
        self._note("restart", numbers)

    async def _resync(self, operator: OperatorProcess) -> None:
        """Wait for the next resync: a list of every model, and a look at each of them."""
        phase = Phase(operator)
        due = operator.started + 2 * _RESYNC_SECONDS
        await asyncio.sleep(max(0.0, due - 5 - time.monotonic()))
        cpu, looked = operator.cpu_seconds(), time.monotonic()
        await asyncio.sleep(15)
        await _quiet(operator)
        numbers = phase.end()
        numbers["cpu_seconds_of_one_resync"] = round(operator.cpu_seconds() - cpu, 1)
        numbers["seconds"] = round(time.monotonic() - looked, 1)
        assert numbers["requests"].get(f"list {MODEL.plural}"), "no resync took place"
        self._note("resync", numbers)

    async def _end_without_api_server(self, operator: OperatorProcess) -> None:
        """Query the operator to end while a stranger answers at the API server's address."""
        await asyncio.to_thread(down, _CLUSTER)
        with stranger_at(self._cluster.server, self._folder):
            await asyncio.sleep(20)  # the Lease is lost by then
            resident = operator.resident_bytes()
            seconds = await asyncio.to_thread(operator.signalled, signal.SIGTERM, limit_seconds=60)
        numbers = {
            "seconds": None if seconds is None else round(seconds, 1),
            "ended": seconds is not None,
            "resident_bytes": resident,
        }
        self._note("sigterm_without_api_server", numbers)

    def _note(self, name: str, numbers: dict[str, Any]) -> None:
        self.phases[name] = numbers
        print(f"{name}: {numbers}", file=sys.stderr, flush=True)


async def _ended(task: "asyncio.Task[None]") -> None:
    """End a task; what it failed with is reported."""
    task.cancel()
    result = (await asyncio.gather(task, return_exceptions=True))[0]
    if isinstance(result, Exception):
        print(f"a part of the bench failed: {result!r}", file=sys.stderr)


async def _quiet(operator: OperatorProcess) -> float:
    """Wait until an operator has nothing to do; return when that began (monotonic)."""
    quiet = Quiet(operator)
    async with asyncio.timeout(300):
        while not quiet.look():  # noqa: ASYNC110  # another process: only looking reports
            await asyncio.sleep(0.5)
    return quiet.since


def goals_of(models: int, baseline: Path) -> dict[str, float]:
    """Return the goals of a fleet: of more than 1,000 models those that do not grow with it.

    Their time is compared with what 1,000 took on the same machine, which `baseline` holds.
    """
    if models <= _THOUSAND:
        return GOALS
    thousand = json.loads(baseline.read_text())["phases"]["all_ready"]
    kept = {name: goal for name, goal in GOALS.items() if name in _OF_ANY_SIZE}
    return kept | {
        "ready_seconds": round(thousand["seconds"] * _GROWTH * models / (3 * _THOUSAND), 1)
    }


def missed(phases: dict[str, Any], goals: dict[str, float]) -> list[str]:
    """Return the goals that were not met, each with what was measured."""
    start, touch, restart = phases["all_ready"], phases["touch"], phases["restart"]
    ended = phases["sigterm_without_api_server"]
    measured = {
        "ready_seconds": start["seconds"],
        "writes_per_model": start["writes_per_model"],
        "touch_seconds": touch["seconds"],
        "restart_seconds": restart["seconds"],
        "fail_over_seconds": phases["fail_over"]["seconds"],
        "sigterm_seconds": ended["seconds"] if ended["ended"] else float("inf"),
        "resident_bytes": max(one.get("peak_resident_bytes", 0) for one in phases.values()),
    }
    lags = [one["loop_lag_seconds"] for one in phases.values() if one.get("loop_lag_seconds")]
    for goal, part in (("lag_p99_seconds", "p99"), ("lag_max_seconds", "max")):
        values = [lag[part] if isinstance(lag[part], float) else float("inf") for lag in lags]
        measured[goal] = max(values, default=float("inf"))
    found = [
        f"{name}: {measured[name]} > {goal}"
        for name, goal in goals.items()
        if measured[name] > goal
    ]
    found += [
        f"{name}: {writes} writes > 0"
        for name in ("rest", "resync", "restart")
        if (writes := phases[name]["writes"] + phases[name]["event_writes"])
    ]
    if losses := sum(one.get("lease_losses", 0) for one in phases.values()):
        found.append(f"Lease losses: {losses} > 0")
    return found


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run the bench on a control plane of its own."""
    os.environ.setdefault("GOGC", _GOGC)
    stores = options.stores or math.ceil(options.models / _THOUSAND)
    fleet = Fleet(options.models, stores, options.engines or options.models)
    result: dict[str, Any] = {
        "command": " ".join(["bench/operator/ready.py", *sys.argv[1:]]),
        "machine": machine(),
        "note": options.note,
        "control_plane": {"GOGC": os.environ["GOGC"]},
        "fleet": {"models": fleet.models, "stores": fleet.stores, "engines": fleet.engines},
    }
    with tempfile.TemporaryDirectory() as folder, control_plane(_CLUSTER) as cluster:
        fleet.make_namespaces(cluster)
        async with client_of(cluster) as client:
            bench = Bench(cluster, client, fleet, Path(options.logs or folder))
            try:
                await bench.run(
                    rest_seconds=options.rest_seconds,
                    touched=min(options.touched, fleet.models),
                    limit_seconds=options.limit_seconds,
                )
            finally:
                result["phases"] = bench.phases
                result["machine"]["load_average_at_end"] = [round(x, 2) for x in os.getloadavg()]
                if "sigterm_without_api_server" not in bench.phases:
                    write_result(f"{options.result}-unfinished", result)
    goals = goals_of(fleet.models, options.baseline)
    result["goals"] = goals
    result["missed"] = missed(bench.phases, goals)
    return result


def main() -> int:
    """Run the bench; exit code 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument(
        "--stores", type=int, help="each in a namespace of its own; default: one for 1,000 models"
    )
    parser.add_argument("--engines", type=int, help="distinct engines; default: one a model")
    parser.add_argument("--rest-seconds", type=float, default=120.0)
    parser.add_argument("--touched", type=int, default=100)
    parser.add_argument("--limit-seconds", type=float, default=1200.0)
    parser.add_argument("--logs", help="an existing folder that keeps the operators' logs")
    parser.add_argument("--note", default="", help="what else the machine did")
    parser.add_argument("--result", default="ready")
    parser.add_argument(
        "--baseline",
        type=Path,
        default=RESULTS / "ready-1000.json",
        help="result of 1,000 models on the same machine, to compare larger fleets with",
    )
    options = parser.parse_args()
    result = asyncio.run(measure(options))
    write_result(options.result, result)
    return 1 if result["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
