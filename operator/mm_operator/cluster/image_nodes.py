"""Reads of nodes whether they have an image: one list for all models that pull ahead.

The nodes are listed at most once in five minutes, however many models want to know, and only while
one does. Of each node stays what a need can name; an answer is kept for all models of one need.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import NODE
from mm_operator.cluster.spare_gpus import is_tolerated, keeping_away
from mm_operator.errors import ClusterError
from mm_operator.model import LOOK_SECONDS, ImageNeed, ImageNode, ImageNodes

MOST_NODES = 20
"""That images are pulled on for one model."""

_MOST_LISTED = 5000
"""Nodes of the largest cluster that Kubernetes says it supports
(https://kubernetes.io/docs/setup/best-practices/cluster-large/); of 15 kB each, 75 MB are read.
With 40 labels and 50 images of two names each 7 MB of them stay (tracemalloc), and a need is met
in 4 ms."""
_PAGE = 50
"""0.75 MB, which are read and cut down in 10 ms; nothing else runs meanwhile."""
_LISTED_IMAGES = 50
"""That a kubelet reports (its nodeStatusMaxImages), the largest ones: from then on the list may be
cut, and an image that is not in it may be there."""
_REMEMBERED = 1000
"""Models, and needs, that were answered; others look again, at the same list."""


@dataclass(frozen=True, slots=True)
class _Node:
    """Of a node that is ready and not cordoned; texts that nodes have in common are held once."""

    name: str
    labels: tuple[str, ...]
    taints: tuple[Mapping[str, Any], ...]
    images: tuple[str, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class _Listed:
    looked_at: datetime
    nodes: tuple[_Node, ...] = ()
    problem: str = ""


class ImageNodeFinder:
    """Finds out which nodes have an image, and keeps the last answer for each model."""

    def __init__(self, client: Client, clock: Callable[[], datetime]) -> None:
        self._client = client
        self._clock = clock
        self._listing = asyncio.Lock()
        self._listed: _Listed | None = None
        self._answers: OrderedDict[tuple[Any, ...], ImageNodes] = OrderedDict()
        self._found: OrderedDict[str, ImageNodes] = OrderedDict()

    def known(self, uid: str) -> ImageNodes | None:
        return self._found.get(uid)

    async def look(self, uid: str, need: ImageNeed) -> None:
        """Look for the need of a model; what cannot be read is an answer, too."""
        async with self._listing:  # who waits here takes the same list
            if self._listed is None or self._is_old(self._listed):
                self._listed = await self._list()
                self._answers.clear()
        _keep(self._found, uid, self._answer(self._listed, need))

    def _is_old(self, listed: _Listed) -> bool:
        return (self._clock() - listed.looked_at).total_seconds() >= LOOK_SECONDS

    def _answer(self, listed: _Listed, need: ImageNeed) -> ImageNodes:
        tolerations = (one.model_dump_json() for one in need.tolerations)
        key = (need.image, *sorted(need.node_labels.items()), *tolerations)
        found = self._answers.get(key) or _find(listed, need)
        _keep(self._answers, key, found)
        return found

    async def _list(self) -> _Listed:
        texts: dict[str, str] = {}
        nodes: list[_Node] = []
        seen, now = 0, self._clock()
        try:
            async for page, _ in self._client.list(NODE, None, page=_PAGE):
                seen += len(page)
                nodes += [
                    _of(one, texts)
                    for one in page
                    if is_ready(one) and not (one.get("spec") or {}).get("unschedulable")
                ]
                if seen >= _MOST_LISTED:
                    break
        except ClusterError as error:
            why = f"nodes cannot be read ({error.status or 'no answer'})"
            text = f"{why}, so no image is pulled ahead: give the operator that right (watchNodes)"
            return _Listed(now, problem=text)
        return _Listed(now, tuple(sorted(nodes, key=lambda node: node.name)))


def is_ready(node: Mapping[str, Any]) -> bool:
    """Return whether a node's kubelet says that it takes pods."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def has_image(node: Mapping[str, Any], image: str) -> bool | None:
    """Return whether a node lists an image; None: its list is full and does not."""
    return _has(_of({"metadata": {"name": ""}, **node}, {}), complete_name(image))


def complete_name(image: str) -> str:
    """Return an image's name as a runtime lists it: with registry, and a digest or a tag."""
    name, at, digest = image.partition("@")
    first, slash, rest = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif not ({".", ":"} & set(first) or first == "localhost"):
        name = f"docker.io/{first}/{rest}"
    folder, _, last = name.rpartition("/")
    base, colon, tag = last.partition(":")
    if at:
        return f"{folder}/{base}@{digest}"
    return f"{folder}/{base}:{tag if colon else 'latest'}"


def _of(node: Mapping[str, Any], texts: dict[str, str]) -> _Node:
    metadata, status = node["metadata"], node.get("status") or {}
    images = status.get("images") or ()

    def once(found: Iterable[str]) -> tuple[str, ...]:
        return tuple(texts.setdefault(text, text) for text in found)

    return _Node(
        name=metadata["name"],
        labels=once(_label(*item) for item in (metadata.get("labels") or {}).items()),
        taints=keeping_away(node),
        images=once(complete_name(name) for one in images for name in one.get("names") or ()),
        complete=len(images) < _LISTED_IMAGES,
    )


def _find(listed: _Listed, need: ImageNeed) -> ImageNodes:
    wanted = [_label(*item) for item in need.node_labels.items()]
    image = complete_name(need.image)
    fitting = [
        node
        for node in listed.nodes
        if all(label in node.labels for label in wanted)
        and all(is_tolerated(taint, need.tolerations) for taint in node.taints)
    ]
    nodes = tuple(ImageNode(one.name, _has(one, image)) for one in fitting[:MOST_NODES])
    more = len(fitting) - len(nodes)
    return ImageNodes(need, listed.looked_at, nodes, more, listed.problem)


def _has(node: _Node, image: str) -> bool | None:
    if image in node.images:
        return True
    return False if node.complete else None


def _label(key: str, value: str) -> str:
    return f"{key}={value}"


def _keep(kept: OrderedDict[Any, ImageNodes], key: object, found: ImageNodes) -> None:
    kept[key] = found
    kept.move_to_end(key)
    while len(kept) > _REMEMBERED:
        kept.popitem(last=False)
