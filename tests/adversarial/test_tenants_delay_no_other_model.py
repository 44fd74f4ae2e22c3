"""A tenant's ConfigMaps neither stall nor fill the operator of everyone.

A real operator process in a cgroup with the chart's memory limit, before a real API server. While
one namespace attacks it, a model of another one is scaled again and again: what its user waits for
the Deployment to follow is compared with a quiet time.
"""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from mm_api import labels
from mm_api.v1alpha1.quantity import bytes_of
from mm_devcluster.cluster import ClusterInfo
from mm_operator.cluster.client import Client, connect
from mm_operator.cluster.resources import CONFIG, DEPLOYMENT, MODEL
from support.absent_kubelet import built, inspected, serving
from support.clusters import namespace
from support.definition import install_definition
from support.memory_group import memory_group
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator
from support.scripts import ROOT
from support.under_attack import FILES_MARGIN, FREED_SECONDS, GRACE_SECONDS, RATIO, held

pytestmark = [pytest.mark.adversarial, pytest.mark.cluster, pytest.mark.timeout(900)]

GOOD = "llava"
QUIET_CHANGES = 20
ATTACK_SECONDS = 40.0
CONFIG_MAPS = 40
CONFIG_BYTES = 1_000_000
"""An API server takes 1 MiB of data; the review sent a dozen."""
MEMORY_MARGIN_BYTES = 96 << 20
"""Of what the operator takes at rest: an allocator keeps part of what large events took."""


def serve(api: Api, *models: dict[str, object]) -> None:
    names = [str(model["metadata"]["name"]) for model in models]  # type: ignore[index]
    for model, name in zip(models, names, strict=True):
        assert "created" in api.apply(model)
        inspected(api, name)
    built(api)
    for name in names:
        serving(api, name)


async def change(client: Client, api: Api, replicas: int) -> float:
    """Scale the good model; return the seconds until its Deployment follows."""
    begin = time.perf_counter()
    await client.merge(MODEL, api.namespace, GOOD, {"spec": {"replicas": replicas}})
    async with asyncio.timeout(120):
        while True:
            deployment = await client.get(DEPLOYMENT, api.namespace, GOOD)
            if deployment is not None and deployment["spec"]["replicas"] == replicas:
                return time.perf_counter() - begin
            await asyncio.sleep(0.02)


def config(number: int, version: int) -> dict[str, object]:
    """Return a ConfigMap with the operator's label; a model's own would be pruned."""
    marks = {labels.APP_MANAGED_BY: labels.MANAGED_BY_VALUE}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"c{number}", "labels": marks},
        "data": {"plan.json": f"{version:08}" * (CONFIG_BYTES // 8)},
    }


async def fill(client: Client, api: Api, until: float) -> int:
    for number in range(CONFIG_MAPS):
        await client.create(CONFIG, api.namespace, config(number, 0))
    for version in itertools.count(1):
        if time.monotonic() > until:
            return CONFIG_MAPS + version - 1
        number = version % CONFIG_MAPS
        await client.merge(CONFIG, api.namespace, f"c{number}", config(number, version))
    raise AssertionError


@pytest.fixture
def limit_bytes() -> int:
    values = yaml.safe_load((ROOT / "charts" / "multimodal-operator" / "values.yaml").read_text())
    return bytes_of(values["operator"]["resources"]["limits"]["memory"])


@pytest.fixture
def namespaces(control_plane: ClusterInfo) -> Iterator[tuple[Api, Api]]:
    install_definition(control_plane)
    suffix = uuid4().hex[:8]
    with (
        namespace(control_plane, f"good-{suffix}") as good,
        namespace(control_plane, f"bad-{suffix}") as bad,
    ):
        yield Api(control_plane, good), Api(control_plane, bad)


async def test_another_namespaces_model_follows_as_before(
    namespaces: tuple[Api, Api], limit_bytes: int, tmp_path: Path
) -> None:
    """ConfigMaps of a megabyte that change all the time."""
    good, bad = namespaces
    served = (good.namespace, bad.namespace)
    every = ("--scaling-interval-seconds=1",)
    client = Client(await connect(str(good.cluster.kubeconfig), None), timeout_seconds=60)
    quiet, attacked = [], []
    with (
        memory_group("mm-operator-attacked", limit_bytes) as group,
        running_operator(good.cluster, tmp_path, *served, arguments=every, group=group) as operator,
    ):
        await asyncio.to_thread(serve, good, document({"replicas": 1}, GOOD))
        replicas = itertools.cycle((2, 1))
        for turn in range(QUIET_CHANGES + 3):
            waited = await change(client, good, next(replicas))
            quiet += [waited] if turn >= 3 else []  # the first ones warm caches up
            await asyncio.sleep(0.1)
        before = held(operator.process.pid)
        until = time.monotonic() + ATTACK_SECONDS
        filling = asyncio.create_task(fill(client, bad, until))
        most_bytes = 0
        while not filling.done():
            attacked.append(await change(client, good, next(replicas)))
            most_bytes = max(most_bytes, held(operator.process.pid).memory_bytes)
            await asyncio.sleep(0.1)
        writes = filling.result()
        deadline = time.monotonic() + FREED_SECONDS
        while True:
            after = held(operator.process.pid)
            free = after.memory_bytes <= before.memory_bytes + MEMORY_MARGIN_BYTES
            if free or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.2)
        killed = group.killed if group else 0
        leads = operator.leads()
    await client.close()
    reported = json.dumps(
        {
            "attack": "tenant",
            "quiet_max_ms": round(max(quiet) * 1000),
            "attacked_max_ms": round(max(attacked) * 1000),
            "changes": len(attacked),
            "config_map_writes": writes,
            "most_mib": most_bytes >> 20,
            "limit_mib": limit_bytes >> 20,
            "before_mib": before.memory_bytes >> 20,
            "after_mib": after.memory_bytes >> 20,
        }
    )
    sys.stdout.write(reported + "\n")
    assert leads, reported
    assert killed == 0, reported
    assert most_bytes <= limit_bytes, reported
    assert after.memory_bytes <= before.memory_bytes + MEMORY_MARGIN_BYTES, reported
    assert after.files <= before.files + FILES_MARGIN, reported
    assert max(attacked) <= RATIO * max(quiet) + GRACE_SECONDS, reported
