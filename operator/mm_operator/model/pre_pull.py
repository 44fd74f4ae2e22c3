"""Images on nodes that may get a pod: what is looked for, what was found, what is done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mm_api.v1alpha1 import Toleration

LOOK_SECONDS = 300.0
"""Between two looks at the nodes: as often as a kubelet reports without a change."""


@dataclass(frozen=True, slots=True)
class ImageNeed:
    """An image, and which nodes may get a pod of it.

    Attributes:
        image: as pods name it.
        node_labels: that the nodes must have.
        tolerations: of the pods.
    """

    image: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class ImageNode:
    """A node that takes such pods.

    Attributes:
        name: of the node.
        has: whether the image is there; None: its list of images is full and does not name it.
    """

    name: str
    has: bool | None


@dataclass(frozen=True, slots=True)
class ImageNodes:
    """What the nodes said about a need.

    Attributes:
        need: what was looked for.
        looked_at: when the nodes were listed.
        nodes: the first of those that take such pods, by name.
        more: further nodes that take such pods.
        problem: why nothing is known; empty: it is.
    """

    need: ImageNeed
    looked_at: datetime
    nodes: tuple[ImageNode, ...] = ()
    more: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PrePull:
    """Which nodes pull the image of a model now.

    Attributes:
        start: node -> name of the Job that pulls there.
        keep: names of Jobs that pull, or that say that a node has pulled.
        look: what to look for before anything is decided.
        message: how far it is, for the status; empty: nothing is pulled ahead.
        due_in: seconds until the nodes are looked at again.
    """

    start: Mapping[str, str] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    look: ImageNeed | None = None
    message: str = ""
    due_in: float | None = None
