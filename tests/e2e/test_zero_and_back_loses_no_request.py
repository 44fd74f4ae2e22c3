"""On the entire development cluster: to zero, held by the chart's router, and back, under kills.

What a wake took is printed (`pytest -rP`): the request, the pod's start, and what is between.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import httpx
import pytest

from mm_devcluster.demo import monitoring
from support.eventually import eventually
from support.installed import RESOURCES, Installed, Space, kill_every, model_space, with_router
from support.service_clients import is_answered
from support.tiny_llava import CHECKPOINT, samples

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1500)]

MODEL = "sleeper"
ASLEEP_SECONDS = 300.0
"""A minute without a request, the windows of the metrics, and the drain of a pod."""
CPU = "300m"
"""Of the server: its start takes longer than the 10 s after which a stream gets a comment."""
PODS = ("pods", "--selector", f"serving.multimodal.dev/model={MODEL}")


@pytest.fixture(name="address", scope="module")
def router_address(installed: Installed) -> Iterator[str]:
    with with_router(installed) as address:
        yield address


@pytest.fixture(name="space", scope="module")
def space_of_a_sleeper(installed: Installed, address: str) -> Iterator[Space]:
    assert address
    with model_space(installed, "zero") as space, monitoring.running(installed.target):
        space.upload(CHECKPOINT, "tiny")
        scaling = {"minReplicas": 0, "maxReplicas": 1, "scaleToZeroAfter": "1m"}
        resources = {**RESOURCES, "limits": {**RESOURCES["limits"], "cpu": CPU}}
        runtime = {"resources": resources}
        space.apply(space.model(MODEL, "tiny", autoscaling=scaling, runtime=runtime))
        space.wait_ready(MODEL, 400)
        yield space


def is_asleep(space: Space) -> bool:
    return (
        space.condition(MODEL, "Ready").reason == "ScaledToZero" and not space.get(*PODS)["items"]
    )


def raw_stream(address: str) -> list[str]:
    body = {"model": MODEL, "messages": samples()[0].messages, "stream": True}
    answer = httpx.post(f"{address}/chat/completions", json=body, timeout=300)
    assert answer.status_code == 200
    return [event for event in answer.text.split("\n\n") if event]


def start_seconds(space: Space) -> float:
    """Return how long the pod took from scheduled to Ready, which Kubernetes has in seconds."""
    (pod,) = space.get(*PODS)["items"]
    moments = {one["type"]: one["lastTransitionTime"] for one in pod["status"]["conditions"]}
    first, last = (datetime.fromisoformat(moments[one]) for one in ("PodScheduled", "Ready"))
    return (last - first).total_seconds()


def test_a_request_is_held_until_a_replica_answers(space: Space, address: str) -> None:
    """One to zero by a real minute without requests; a stream and a unary request wake it."""
    assert is_answered(address, MODEL, stream=False)
    eventually(lambda: is_asleep(space), seconds=ASLEEP_SECONDS, pause_seconds=1)
    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        events = pool.submit(raw_stream, address)
        unary = pool.submit(is_answered, address, MODEL, stream=False)
        assert unary.result(timeout=400)
        took = time.monotonic() - began
        found = events.result(timeout=400)
    assert (found[0], found[-1]) == (": keep-alive", "data: [DONE]")
    started = start_seconds(space)
    beside = took - started
    print(f"wake: {took:.1f} s; the pod's start {started:.0f} s; beside {beside:.1f} s")  # noqa: T201
    changes = space.read(MODEL)["status"]["scaling"]["history"]
    moves = [(one["toReplicas"], one["reason"].partition(":")[0]) for one in changes]
    assert moves[:2] == [(1, "RequestsHeld"), (0, "ScaledToZero")]


@pytest.mark.parametrize("component", ["router", "operator"])
def test_killed_processes_lose_no_request(space: Space, address: str, component: str) -> None:
    """Each replica of it is killed while requests wait: all are answered."""
    space.kubectl("scale", "mmm", MODEL, "--replicas=0")
    eventually(lambda: is_asleep(space), seconds=ASLEEP_SECONDS, pause_seconds=1)
    began = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(is_answered, address, MODEL, stream=bool(one % 2)) for one in range(4)]
        time.sleep(1)
        kill_every(space.installed, component)
        assert all(one.result(timeout=400) for one in sent)
    took, started = time.monotonic() - began, start_seconds(space)
    print(f"{component}s killed: {took:.1f} s; the pod's start {started:.0f} s")  # noqa: T201
