"""One kind of child through kopf and through our reflector: requests, memory, CPU, deletions.

Run: `.venv/bin/python bench/operator/watches.py` (2 minutes). Both fill the same cache from the
same ConfigMaps, by the same label selector, in a process of its own; a third process fills nothing
and shows what the imports alone take. Then every object changes once, and 100 are deleted while
the process stands still and its connection has ended: a short outage, after which the API server
still knows every event.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from harness import (
    NAMESPACE,
    client_of,
    control_plane,
    cpu_seconds_of,
    kubectl,
    machine,
    write_result,
)

from mm_api import labels
from mm_devcluster.cluster import ClusterInfo, restart_part
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.client import Client, connect
from mm_operator.cluster.reflector import Reflector
from mm_operator.cluster.resources import CONFIG
from mm_operator.handlers import connection_of, make_kopf_settings

WAYS = ("nothing", "kopf", "reflector")
DELETED = 100
SETTLE_SECONDS = 15.0
"""Reconnects and their lists are over by then."""
_SELECTOR = f"{labels.APP_MANAGED_BY}={labels.MANAGED_BY_VALUE}"
_PAYLOAD = "x" * 1500


def config(index: int, value: str) -> dict[str, Any]:
    """Return an object of the size of facts or a serving plan."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"config-{index:05}",
            "namespace": NAMESPACE,
            "labels": {labels.APP_MANAGED_BY: labels.MANAGED_BY_VALUE, labels.MODEL: f"m-{index}"},
        },
        "data": {"value": value, "payload": _PAYLOAD},
    }


async def write(client: Client, count: int, value: str) -> None:
    """Create or change every object, 16 at a time."""
    slots = asyncio.Semaphore(16)

    async def one(index: int) -> None:
        async with slots:
            await client.apply(CONFIG, config(index, value), "bench")

    await asyncio.gather(*map(one, range(count)))


async def fill_with_kopf(cache: Cache, kubeconfig: str) -> None:
    """Fill a cache through `on.event`, as `mm_operator.handlers` does for models."""
    import kopf  # noqa: PLC0415 (its memory belongs to this way)

    api = await connect(kubeconfig, None)
    registry, settings = kopf.OperatorRegistry(), make_kopf_settings()
    settings.watching.label_selectors["configmaps"] = _SELECTOR

    @kopf.on.login(registry=registry)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return await connection_of(api)

    @kopf.on.event("", "v1", "configmaps", registry=registry)
    async def changed(event: Any, **_: Any) -> None:
        (cache.remove if event["type"] == "DELETED" else cache.put)(CONFIG.kind, event["object"])

    await kopf.operator(
        registry=registry, settings=settings, standalone=True, namespaces=[NAMESPACE]
    )


async def fill_with_reflector(cache: Cache, kubeconfig: str) -> None:
    """Fill a cache as `mm_operator.cluster.cache_sync` does."""
    client = Client(await connect(kubeconfig, None))
    await Reflector(client, CONFIG, namespace=NAMESPACE, selector=_SELECTOR, sink=cache).run()


async def child(way: str, kubeconfig: str) -> None:
    """Fill a cache and print how many objects it holds and how many changes it saw, per line."""
    changes: list[object] = []
    cache = Cache(on_change=changes.append)
    fill = {"kopf": fill_with_kopf, "reflector": fill_with_reflector}.get(way)
    filling = asyncio.create_task(fill(cache, kubeconfig)) if fill else None
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        del line
        print(json.dumps([len(cache), len(changes)]), flush=True)
    if filling is not None:
        filling.cancel()


class Process:
    """One way, in a process of its own."""

    def __init__(self, way: str, cluster: ClusterInfo, log: Path) -> None:
        command = [
            sys.executable,
            __file__,
            "--child",
            way,
            "--kubeconfig",
            str(cluster.kubeconfig),
        ]
        self._log = log.open("w")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self.pid = self._process.pid

    def holds(self) -> tuple[int, int]:
        """Return how many objects the cache holds, and how many changes it saw."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        objects, changes = json.loads(self._process.stdout.readline())
        return objects, changes

    async def until(self, objects: int, changes: int) -> None:
        """Wait for a state of the cache."""
        for _ in range(600):
            now = self.holds()
            if now[0] == objects and now[1] >= changes:
                return
            await asyncio.sleep(0.2)
        raise TimeoutError(
            f"{now} after two minutes, expected {objects} objects and {changes} changes"
        )

    def resources(self) -> dict[str, float]:
        """Return memory, CPU and connections now."""
        process = psutil.Process(self.pid)
        established = [
            one for one in process.net_connections("tcp") if one.status == psutil.CONN_ESTABLISHED
        ]
        return {
            "resident_bytes": process.memory_info().rss,
            "cpu_seconds": cpu_seconds_of(self.pid),
            "connections": len(established),
        }

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait(timeout=10)
        self._log.close()


async def measure(way: str, client: Client, cluster: ClusterInfo, count: int) -> dict[str, Any]:
    """Run one way over all objects, over a change of each, and over an outage."""
    await write(client, count, "first")
    process = Process(way, cluster, Path(f"/tmp/watches-{way}.log"))  # noqa: S108
    try:
        if way == "nothing":
            process.holds()
            await asyncio.sleep(2)
            return {"imported": process.resources()}
        await process.until(count, count)
        filled = process.resources()
        await write(client, count, "next")
        await process.until(count, 2 * count)
        changed = process.resources()
        kept = await deleted_meanwhile(process, client, cluster, count)
        return {"filled": filled, "each_changed": changed, "deleted_but_still_held": kept}
    finally:
        process.stop()


async def deleted_meanwhile(
    process: Process, client: Client, cluster: ClusterInfo, count: int
) -> int:
    """Delete objects while a way has no connection; return how many of them it still holds."""
    stopped = psutil.Process(process.pid)
    stopped.suspend()
    restart_part(cluster.name, "kube-apiserver")
    await answering(cluster)
    await asyncio.gather(
        *(client.delete(CONFIG, NAMESPACE, f"config-{i:05}") for i in range(DELETED))
    )
    stopped.resume()
    await asyncio.sleep(SETTLE_SECONDS)
    return process.holds()[0] - (count - DELETED)


async def answering(cluster: ClusterInfo) -> None:
    """Wait until the API server has come back."""
    for _ in range(120):
        await asyncio.sleep(0.5)
        with suppress(subprocess.CalledProcessError):
            if "ok" in kubectl(cluster, "get", "--raw", "/readyz"):
                return
    raise TimeoutError("the API server did not come back within a minute")


async def main() -> int:
    """Measure every way, or be the process of one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--child", choices=WAYS)
    parser.add_argument("--kubeconfig")
    options = parser.parse_args()
    if options.child:
        await child(options.child, options.kubeconfig)
        return 0
    result: dict[str, Any] = {"command": " ".join(sys.argv), "machine": machine()}
    with control_plane("bench-watches") as cluster:
        async with client_of(cluster) as client:
            for way in WAYS:
                result[way] = await measure(way, client, cluster, options.objects)
    write_result("watches", result)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
