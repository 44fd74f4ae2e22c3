"""A namespace whose claim holds good checkpoints, shared by all faults; models go in between."""

import json
from collections.abc import Callable, Iterator

import pytest

from support.clusters import kubectl
from support.eventually import eventually
from support.installed import Installed, Space, model_space
from support.random_llava import write_random_llava
from support.tiny_llava import CHECKPOINT

GONE_SECONDS = 90.0
GPU = "/status/capacity/nvidia.com~1gpu"
"""JSON pointer to the fake GPUs of the node: a build that requests one waits until there is one."""

Gate = Callable[[], None]


@pytest.fixture(name="faults", scope="session")
def space_of_all_faults(
    installed: Installed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Space]:
    with model_space(installed, "faults") as space:
        space.upload(write_random_llava(tmp_path_factory.mktemp("checkpoint")), "good")
        space.upload(CHECKPOINT, "tiny")
        yield space


@pytest.fixture(name="space", scope="module")
def space_of_one_module(faults: Space) -> Iterator[Space]:
    yield faults
    delete_models(faults)


@pytest.fixture
def alone(space: Space) -> Iterator[Space]:
    yield space
    delete_models(space)


@pytest.fixture
def open_gate(installed: Installed) -> Iterator[Gate]:
    """Give the node a GPU when called: builds that request one start then, and not before."""
    node = kubectl(installed.cluster, "get", "nodes", "-o", "name").strip()

    def patch(operation: dict[str, str]) -> None:
        change = ("--subresource=status", "--type=json", "-p", json.dumps([operation]))
        kubectl(installed.cluster, "patch", node, *change)

    add = {"op": "add", "path": GPU}
    yield lambda: patch({**add, "value": "1"})
    patch({**add, "value": "0"})


def delete_models(space: Space) -> None:
    space.kubectl("delete", "mmm", "--all", "--timeout=60s")

    def left() -> list[str]:
        return space.names("pods") + space.names("jobs")

    eventually(lambda: not left(), seconds=GONE_SECONDS)
    assert left() == []
