"""The record of a cluster on disk: what it was started as, and which process it hangs on."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from mm_devcluster.addresses import Family
from mm_devcluster.layout import Layout
from mm_devcluster.processes import Process


@dataclass(frozen=True)
class Record:
    """Everything that ``status`` and ``down`` need to know, written before it comes true.

    Written first, so that whatever ``up`` was interrupted in can be found and removed.
    """

    name: str
    slot: int
    control_plane_only: bool
    gpu: str
    server: str
    created: float
    """Unix time."""
    interface: str = ""
    cgroup: str = ""
    store: int | None = None
    ip_family: Family = Family.IPV4
    launched: Process | None = None
    """The process that ``up`` started: the supervisor, or ``unshare`` above it."""
    supervisor: Process | None = None
    """The supervisor; of a node: PID 1 of its namespaces, as seen from outside."""

    @property
    def alive(self) -> bool:
        """Whether the cluster's first process runs."""
        return self.supervisor is not None and self.supervisor.alive

    def write(self, layout: Layout) -> None:
        """Write the record; a reader sees the old or the new one, never half."""
        scratch = layout.record.with_suffix(".new")
        scratch.write_text(json.dumps(asdict(self), indent=2) + "\n")
        scratch.rename(layout.record)

    @classmethod
    def read(cls, layout: Layout) -> Self | None:
        """Return the record of a cluster, or None when there is none."""
        try:
            document: dict[str, Any] = json.loads(layout.record.read_text())
        except FileNotFoundError:
            return None
        for key in ("launched", "supervisor"):
            document[key] = Process(**document[key]) if document[key] else None
        document["ip_family"] = Family(document.get("ip_family", Family.IPV4))
        known = {field.name for field in fields(cls)}  # of what another version wrote
        return cls(**{key: value for key, value in document.items() if key in known})


def known_clusters(directory: Path) -> list[str]:
    """Return the names of the clusters that have a record below a state directory."""
    return sorted(path.parent.name for path in (directory / "clusters").glob("*/cluster.json"))
