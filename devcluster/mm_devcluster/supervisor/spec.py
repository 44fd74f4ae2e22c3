"""What the supervisor runs, as values that survive a trip through JSON."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self


@dataclass(frozen=True)
class Gate:
    """What must answer before a part is started for the first time."""

    kind: Literal["tcp", "unix", "https"]
    target: str
    """``host:port``, a socket's path, or a URL that has to answer 200."""
    authority: str = ""
    """CA file of an https target."""


@dataclass(frozen=True)
class Part:
    """One program of the cluster."""

    name: str
    arguments: list[str]
    log: str
    gate: Gate | None = None


@dataclass(frozen=True)
class NodeSetup:
    """What makes the supervisor's namespaces a node, before any part starts."""

    binds: dict[str, str]
    """Mount point to private directory; the points are paths that parts have compiled in."""
    interface: str
    """Our end of the veth pair; the starting process moves it in."""
    address: str
    """``10.99.0.2/24``."""
    gateway: str
    containerd_socket: str
    xtables: str
    """Directory that gets links to the iptables variant that works, first in PATH."""


@dataclass(frozen=True)
class StoreCleaning:
    """An image store to be freed of a stopped cluster's containers."""

    root: str
    config: str
    """Configuration of a containerd without CRI, on the same root."""
    socket: str
    """Where that containerd listens."""


@dataclass(frozen=True)
class SupervisorSpec:
    """Everything the supervisor needs to know."""

    state_file: str
    parts: list[Part]
    node: NodeSetup | None = None
    cleaning: StoreCleaning | None = None
    """Done after the node's set-up, before its first part."""
    volumes: str = ""
    """Directory whose new children are made writable for every user; empty: none."""

    def write(self, path: Path) -> None:
        """Write the specification as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read back what ``write`` wrote."""
        document: dict[str, Any] = json.loads(path.read_text())
        parts = [
            Part(**{**part, "gate": Gate(**part["gate"]) if part["gate"] else None})
            for part in document.pop("parts")
        ]
        node, cleaning = document.pop("node"), document.pop("cleaning")
        return cls(
            parts=parts,
            node=NodeSetup(**node) if node else None,
            cleaning=StoreCleaning(**cleaning) if cleaning else None,
            **document,
        )
