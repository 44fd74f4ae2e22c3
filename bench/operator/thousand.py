"""1,000 models at once: seconds until right, memory, CPU, writes; then rest; then a restart.

Run: `.venv/bin/python bench/operator/thousand.py` (7 minutes). No nodes: each inspect pod stays
Pending, which is what a cluster that waits for GPUs looks like.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import (
    OperatorProcess,
    client_of,
    control_plane,
    cpu_seconds_by_part,
    create_models,
    listed,
    machine,
    versions,
    write_result,
)

from mm_devcluster.cluster import ClusterInfo
from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import JOB, MODEL

MAX_SECONDS = 60.0
MAX_BYTES = 250_000_000
_POLL_SECONDS = 1.0
_QUIET_SECONDS = 5.0


async def right(client: Client, count: int) -> bool:
    """Return whether each model has its inspect Job and a status that says so."""
    models = await listed(client, MODEL)
    jobs = {
        item["metadata"]["labels"]["serving.multimodal.dev/model"]
        for item in await listed(client, JOB)
    }
    return len(models) == count == len(jobs) and all(map(_status_is_right, models))


def _may_be_right(operator: OperatorProcess, count: int) -> bool:
    """Return whether enough was written to look; looking each second would load the API server."""
    sent = operator.requests()
    return min(sent.get("patch jobs", 0), sent.get("patch multimodalmodels/status", 0)) >= count


def _status_is_right(item: dict[str, Any]) -> bool:
    status = item.get("status") or {}
    reasons = {one["type"]: one["reason"] for one in status.get("conditions", ())}
    current = status.get("observedGeneration") == item["metadata"]["generation"]
    return current and reasons.get("Planned") in {"Inspecting", "InspectPending"}


async def settled(operator: OperatorProcess) -> float:
    """Wait until the operator wrote nothing for a while; return when it wrote last (monotonic)."""
    writes, since = operator.writes(), time.monotonic()
    while time.monotonic() - since < _QUIET_SECONDS:
        await asyncio.sleep(_POLL_SECONDS / 2)
        now = operator.writes()
        if now != writes:
            writes, since = now, time.monotonic()
    return since


async def creation(
    client: Client, cluster: ClusterInfo, operator: OperatorProcess, count: int
) -> dict[str, Any]:
    """Create the models and wait until everything is right, then until nothing is written."""
    started, cpu = time.monotonic(), operator.cpu_seconds()
    before = cpu_seconds_by_part(cluster, operator)
    created = await create_models(client, count)
    while not (_may_be_right(operator, count) and await right(client, count)):
        assert time.monotonic() - started < 10 * MAX_SECONDS, "never became right"
        await asyncio.sleep(_POLL_SECONDS)
    seconds = time.monotonic() - started
    after = cpu_seconds_by_part(cluster, operator)
    used = {name: round(after[name] - before[name], 1) for name in after}
    last_write = await settled(operator) - started
    operator.resident_bytes()
    return {
        "models": count,
        "seconds_to_create_the_models": round(created, 1),
        "seconds_until_every_first_child_and_status_is_right": round(seconds, 1),
        "cpu_seconds_of_all_parts_until_then": used,
        "share_of_the_machine_that_was_free_for_them": round(
            sum(used.values()) / seconds / (os.cpu_count() or 1), 2
        ),
        "seconds_until_the_last_write": round(last_write, 1),
        "operator_peak_resident_bytes": operator.peak_bytes,
        "operator_cpu_seconds": round(operator.cpu_seconds() - cpu, 1),
        "writes_per_model": round(operator.writes() / count, 2),
        "requests": operator.requests(),
        "failed_reconciles": operator.errors(),
    }


async def rest(client: Client, operator: OperatorProcess, seconds: float) -> dict[str, Any]:
    """Watch an operator that has nothing to do."""
    before, requests = await versions(client), operator.requests()
    cpu, writes, reads = operator.cpu_seconds(), operator.writes(), operator.reads()
    await asyncio.sleep(seconds)
    after = await versions(client)
    now = operator.requests()
    return {
        "seconds": seconds,
        "operator_writes": operator.writes() - writes,
        "operator_reads": operator.reads() - reads,
        "requests": {
            name: now[name] - requests.get(name, 0)
            for name in now
            if now[name] != requests.get(name, 0)
        },
        "objects_whose_version_changed": sum(
            before.get(k) != v for k, v in after.items() if not k.startswith("Job/")
        ),
        "operator_cpu_share": round((operator.cpu_seconds() - cpu) / seconds, 4),
        "operator_resident_bytes": operator.resident_bytes(),
    }


async def restart(cluster: ClusterInfo, log: Path) -> dict[str, Any]:
    """Start a new operator over what is there and wait until it has looked at everything."""
    operator = OperatorProcess(cluster, log)
    try:
        started = operator.started
        last = await looked_at_everything(operator)
        await settled(operator)
        operator.resident_bytes()
        return {
            "seconds_until_settled": round(last - started, 1),
            "operator_writes": operator.writes(),
            "operator_cpu_seconds": round(operator.cpu_seconds(), 1),
            "operator_peak_resident_bytes": operator.peak_bytes,
            "requests": operator.requests(),
        }
    finally:
        operator.stop()


async def looked_at_everything(operator: OperatorProcess) -> float:
    """Wait until the queue is empty and reconciles stopped; return when the last one ended."""
    last, count = time.monotonic(), -1
    while time.monotonic() - last < _QUIET_SECONDS / 2 or count <= 0:
        text = operator.metrics()
        now = sum(
            int(float(line.split()[-1]))
            for line in text.splitlines()
            if line.startswith("mm_operator_reconcile_total")
        )
        if now != count:
            last, count = time.monotonic(), now
        await asyncio.sleep(0.25)
    return last


async def main() -> int:
    """Run the bench; exit code 1 when a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--rest-seconds", type=float, default=120.0)
    parser.add_argument("--result", default="thousand")
    options = parser.parse_args()
    result: dict[str, Any] = {"command": " ".join(sys.argv), "machine": machine()}
    with tempfile.TemporaryDirectory() as folder, control_plane("bench-operator") as cluster:
        async with client_of(cluster) as client:
            operator = OperatorProcess(cluster, Path(folder) / "first.log")
            try:
                result["creation"] = await creation(client, cluster, operator, options.models)
                result["rest"] = await rest(client, operator, options.rest_seconds)
            finally:
                operator.stop()
            result["restart"] = await restart(cluster, Path(folder) / "second.log")
    write_result(options.result, result)
    made, quiet, again = result["creation"], result["rest"], result["restart"]
    good = (
        made["seconds_until_every_first_child_and_status_is_right"] <= MAX_SECONDS
        and max(made["operator_peak_resident_bytes"], again["operator_peak_resident_bytes"])
        <= MAX_BYTES
        and quiet["operator_writes"] == quiet["objects_whose_version_changed"] == 0
        and again["operator_writes"] == 0
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
