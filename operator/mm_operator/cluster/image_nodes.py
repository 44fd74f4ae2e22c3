"""Reads of nodes whether they have an image: of a few, and only for models that pull ahead."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import NODE
from mm_operator.cluster.spare_gpus import takes_pods
from mm_operator.errors import ClusterError
from mm_operator.model import ImageNeed, ImageNode, ImageNodes

MOST_NODES = 20
"""That images are pulled on for one model."""

_MOST_LISTED = 500
"""Nodes, some 15 kB each."""
_PAGE = 25
_LISTED_IMAGES = 50
"""That a kubelet reports (its nodeStatusMaxImages), the largest ones: from then on the list may be
cut, and an image that is not in it may be there."""
_REMEMBERED = 1000
"""Models whose nodes were looked at; others look again."""


class ImageNodeFinder:
    """Finds out which nodes have an image, and keeps the last answer for each model."""

    def __init__(self, client: Client, clock: Callable[[], datetime]) -> None:
        self._client = client
        self._clock = clock
        self._found: OrderedDict[str, ImageNodes] = OrderedDict()

    def known(self, uid: str) -> ImageNodes | None:
        """Return what was last found for a model."""
        return self._found.get(uid)

    async def look(self, uid: str, need: ImageNeed) -> None:
        """Look for the need of a model; what cannot be read is an answer, too."""
        try:
            found = await self._look(need)
        except ClusterError as error:
            why = f"nodes cannot be read ({error.status or 'no answer'})"
            text = f"{why}, so no image is pulled ahead: give the operator that right (watchNodes)"
            found = ImageNodes(need, self._clock(), problem=text)
        self._found[uid] = found
        self._found.move_to_end(uid)
        while len(self._found) > _REMEMBERED:
            self._found.popitem(last=False)

    async def _look(self, need: ImageNeed) -> ImageNodes:
        selector = ",".join(f"{key}={value}" for key, value in need.node_labels.items())
        nodes: list[ImageNode] = []
        seen = 0
        async for page, _ in self._client.list(NODE, None, selector=selector, page=_PAGE):
            seen += len(page)
            nodes += [
                ImageNode(one["metadata"]["name"], has_image(one, need.image))
                for one in page
                if takes_pods(one, need.tolerations) and is_ready(one)
            ]
            if seen >= _MOST_LISTED:
                break
        nodes.sort(key=lambda node: node.name)
        more = max(0, len(nodes) - MOST_NODES)
        return ImageNodes(need, self._clock(), tuple(nodes[:MOST_NODES]), more)


def is_ready(node: Mapping[str, Any]) -> bool:
    """Return whether a node's kubelet says that it takes pods."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def has_image(node: Mapping[str, Any], image: str) -> bool | None:
    """Return whether a node lists an image; None: its list is full and does not."""
    listed = (node.get("status") or {}).get("images") or ()
    wanted = complete_name(image)
    if any(wanted == complete_name(name) for one in listed for name in one.get("names") or ()):
        return True
    return None if len(listed) >= _LISTED_IMAGES else False


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
