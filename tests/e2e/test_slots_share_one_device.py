"""On the entire development cluster: two models take turns on the one device of the node.

What a swap took is printed (`pytest -rP`).
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.advertised_gpus import advertise
from support.clusters import read
from support.eventually import eventually
from support.installed import RESOURCES, Installed, Space, kill_every, model_space, with_router
from support.service_clients import is_answered
from support.tiny_llava import CHECKPOINT

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1500)]

DEVICE = "example.com/device"
MODELS = ("left", "right")


@pytest.fixture(name="address", scope="module")
def router_address(installed: Installed) -> Iterator[str]:
    node = str(read(installed.cluster, "nodes")["items"][0]["metadata"]["name"])
    advertise(installed.cluster, node, DEVICE, 1)
    try:
        with with_router(installed) as address:
            yield address
    finally:
        advertise(installed.cluster, node, DEVICE, None)


@pytest.fixture(name="space", scope="module")
def space_of_two(installed: Installed, address: str) -> Iterator[Space]:
    assert address
    with model_space(installed, "slots") as space:
        space.upload(CHECKPOINT, "tiny")
        resources = {**RESOURCES, "limits": {**RESOURCES["limits"], DEVICE: "1"}}
        for name in MODELS:
            space.apply(
                space.model(
                    name,
                    "tiny",
                    runtime={"resources": resources, "gpu": {"slot": "shared"}},
                    rollout={"strategy": "Recreate"},
                    autoscaling={"minReplicas": 0, "maxReplicas": 1},
                )
            )
        for name in MODELS:
            space.wait_ready(name, 400)
        yield space


def with_replicas(space: Space) -> list[str]:
    return [name for name in MODELS if space.read(name)["spec"]["replicas"]]


def reasons(space: Space, name: str) -> list[str]:
    history = space.read(name)["status"]["scaling"]["history"]
    return [one["reason"].partition(":")[0] for one in history]


def test_one_of_two_has_the_device(space: Space) -> None:
    """The other one waits, is Ready, and says what for once a request of it waits."""
    eventually(lambda: len(with_replicas(space)) == 1)
    for name in MODELS:
        assert space.wait_ready(name).reason in {
            "ReplicasAvailable",
            "ScaledToZero",
            "WaitingForSlot",
        }


def test_requests_swap_the_models(space: Space, address: str) -> None:
    """Three swaps there and back, in two of them the operator or the router is killed."""
    for killed in ("", "operator", "router"):
        eventually(lambda: len(with_replicas(space)) == 1)
        (resident,) = with_replicas(space)
        (other,) = set(MODELS) - {resident}
        began = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(is_answered, address, other, stream=True)
            space.wait_reason(other, "ScalingActive", "WaitingForSlot", "FollowingLoad")
            if killed:
                kill_every(space.installed, killed)
            assert sent.result(timeout=400)
        print(f"{resident} -> {other} {killed}: {time.monotonic() - began:.1f} s")  # noqa: T201
        assert reasons(space, resident)[0] == "SlotGivenUp"
        assert reasons(space, other)[0] == "RequestsHeld"


def test_no_request_waits_for_ever(space: Space, address: str) -> None:
    """Requests to both at one time, again and again: every one is answered."""
    with ThreadPoolExecutor(4) as pool:
        sent = [
            pool.submit(is_answered, address, MODELS[number % 2], stream=bool(number % 3))
            for number in range(12)
        ]
        assert all(one.result(timeout=600) for one in sent)
    assert len(with_replicas(space)) == 1
