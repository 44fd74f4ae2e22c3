"""Models that pull images ahead share one list of nodes: a fleet lists them as often as one."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from mm_api.v1alpha1 import Toleration
from mm_operator.cluster.image_nodes import MOST_NODES, ImageNodeFinder
from mm_operator.model import LOOK_SECONDS, ImageNeed
from support.answering_api import client_of
from support.cases import cases

IMAGE = "example.org/runtime:1"
NEED = ImageNeed(IMAGE)
READY = [{"type": "Ready", "status": "True"}]


def node(name: str, *, image: str = IMAGE, ready: bool = True, **spec: Any) -> dict[str, Any]:
    """Return a node of pool a that has an image."""
    return {
        "metadata": {"name": name, "labels": {"pool": "a", "host": name}},
        "spec": spec,
        "status": {"conditions": READY if ready else [], "images": [{"names": [image]}]},
    }


@dataclass
class Nodes:
    """Nodes of a server, how often they were listed, and the time."""

    items: list[dict[str, Any]]
    lists: int = 0
    status: int = 200
    now: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a list, a page at a time."""
        start, limit = int(request.query.get("continue") or 0), int(request.query["limit"])
        self.lists += not start
        await asyncio.sleep(0)
        page, left = self.items[start : start + limit], self.items[start + limit :]
        metadata = {"resourceVersion": "7", "continue": str(start + limit) if left else ""}
        return web.json_response({"items": page, "metadata": metadata}, status=self.status)


@pytest.fixture
async def there() -> AsyncIterator[tuple[Nodes, ImageNodeFinder]]:
    """A server with nodes, and the finder of one operator."""
    nodes = Nodes([node("here"), node("missing", image="example.org/other:1")])
    async with client_of(nodes.answer, "/api/v1/nodes") as client:
        yield nodes, ImageNodeFinder(client, lambda: nodes.now)


def names(finder: ImageNodeFinder, uid: str) -> list[str]:
    found = finder.known(uid)
    assert found is not None
    return [one.name for one in found.nodes]


async def test_models_share_a_list(there: tuple[Nodes, ImageNodeFinder]) -> None:
    """A hundred at one time, of several needs; equal needs share the answer, too."""
    nodes, finder = there
    other = ImageNeed("example.org/other:1", {"pool": "a"})
    await asyncio.gather(*(finder.look(str(n), (NEED, other)[n % 2]) for n in range(100)))
    assert nodes.lists == 1
    assert finder.known("0") is finder.known("98")
    assert [(one.name, one.has) for one in finder.known("1").nodes] == [  # type: ignore[union-attr]
        ("here", False),
        ("missing", True),
    ]


async def test_a_list_is_used_for_five_minutes(there: tuple[Nodes, ImageNodeFinder]) -> None:
    """From when it was made, for a model that comes later, too."""
    nodes, finder = there
    made = nodes.now
    await finder.look("first", NEED)
    nodes.items.append(node("new"))
    nodes.now += timedelta(seconds=LOOK_SECONDS - 1)
    await finder.look("second", NEED)
    assert (names(finder, "second"), nodes.lists) == (["here", "missing"], 1)
    assert finder.known("second").looked_at == made  # type: ignore[union-attr]
    nodes.now += timedelta(seconds=1)
    await finder.look("second", NEED)
    assert (names(finder, "second"), nodes.lists) == (["here", "missing", "new"], 2)


async def test_a_refusal_is_shared(there: tuple[Nodes, ImageNodeFinder]) -> None:
    """Nodes are not listed again for five minutes; each status has what is missing."""
    nodes, finder = there
    nodes.status = 403
    await finder.look("first", NEED)
    await finder.look("second", ImageNeed("another"))
    assert nodes.lists == 1
    assert "nodes cannot be read (403)" in finder.known("second").problem  # type: ignore[union-attr]


@cases(
    "item need expected",
    {
        "labels": (node("a"), ImageNeed(IMAGE, {"pool": "a", "host": "a"}), ["a"]),
        "another-pool": (node("a"), ImageNeed(IMAGE, {"pool": "b"}), []),
        "cordoned": (node("a", unschedulable=True), NEED, []),
        "not-ready": (node("a", ready=False), NEED, []),
        "taint": (node("a", taints=[{"key": "k", "effect": "NoExecute"}]), NEED, []),
        "tolerated": (
            node("a", taints=[{"key": "k", "effect": "NoSchedule"}]),
            ImageNeed(IMAGE, tolerations=(Toleration(key="k", operator="Exists"),)),
            ["a"],
        ),
    },
)
async def test_nodes_are_those_that_take_the_pods(
    there: tuple[Nodes, ImageNodeFinder], item: dict[str, Any], need: ImageNeed, expected: list[str]
) -> None:
    """By labels, taints, cordon and kubelet."""
    nodes, finder = there
    nodes.items = [item]
    await finder.look("m", need)
    assert names(finder, "m") == expected


async def test_a_model_has_twenty_nodes(there: tuple[Nodes, ImageNodeFinder]) -> None:
    """Of all pages; how many more there are is known."""
    nodes, finder = there
    nodes.items = [node(f"n{number:03}") for number in range(120)]
    await finder.look("m", NEED)
    assert names(finder, "m") == [f"n{number:03}" for number in range(MOST_NODES)]
    assert finder.known("m").more == 100  # type: ignore[union-attr]
