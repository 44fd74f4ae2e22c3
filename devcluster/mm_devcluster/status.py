"""The state of a cluster, as text for people who never saw it."""

import json
from dataclasses import dataclass, field
from typing import Any

from mm_devcluster.addons import DNS_DEPLOYMENT
from mm_devcluster.addresses import NODE_PORTS, network_of, ports_of
from mm_devcluster.api import Api, ApiError
from mm_devcluster.bringup import NODE, is_available, node_is_ready
from mm_devcluster.errors import DevClusterError
from mm_devcluster.images.load import Containerd
from mm_devcluster.layout import Layout
from mm_devcluster.node.store import size_of, store_path
from mm_devcluster.processes import namespace_pids, resident_bytes
from mm_devcluster.record import Record


@dataclass(frozen=True)
class PartStatus:
    """One program of a cluster."""

    name: str
    running: bool
    pid: int | None
    """As the machine sees it."""
    since: float
    """Unix time of the latest start; 0 when it never started."""
    restarts: int
    exit_code: int | None
    """How its previous process ended; None when it never did."""
    rss_bytes: int
    address: str
    """Where it listens; empty when it is internal."""


@dataclass(frozen=True)
class ClusterStatus:
    """One cluster."""

    name: str
    state: str
    """One sentence: what is so, and what to do about it."""
    running: bool
    ready: bool
    """Whether everything a user needs works: API, and with a node also node and DNS."""
    control_plane_only: bool = False
    created: float = 0.0
    server: str = ""
    kubeconfig: str = ""
    directory: str = ""
    api_ready: bool = False
    node_ready: bool | None = None
    """None without a node."""
    dns_ready: bool | None = None
    devices: dict[str, str] = field(default_factory=dict)
    """Extended resources that the node offers."""
    image_store: str = ""
    image_store_bytes: int = 0
    images: tuple[str, ...] = ()
    parts: tuple[PartStatus, ...] = ()


def observe_status(name: str, layout: Layout) -> ClusterStatus:
    """Look at a cluster's processes, its API and its image store."""
    record = Record.read(layout)
    if record is None:
        state = f"There is no cluster {name!r}. Start it: mm-devcluster up --name {name}"
        return ClusterStatus(name, state, running=False, ready=False)
    parts = _parts(record, layout)
    if not record.alive:
        state = f"It died and left things behind. Remove them: mm-devcluster down --name {name}"
        return ClusterStatus(
            name,
            state,
            running=False,
            ready=False,
            control_plane_only=record.control_plane_only,
            created=record.created,
            directory=str(layout.root),
            parts=parts,
        )
    api = Api(layout.kubeconfig)
    node = {} if record.control_plane_only else _object_at(api, NODE)
    dns = {} if record.control_plane_only else _object_at(api, DNS_DEPLOYMENT)
    api_ready = api.is_ready()
    node_ready = None if record.control_plane_only else bool(node) and node_is_ready(node)
    dns_ready = None if record.control_plane_only else bool(dns) and is_available(dns)
    ready = api_ready and node_ready is not False and dns_ready is not False
    return ClusterStatus(
        name=name,
        state=describe(api_ready=api_ready, node_ready=node_ready, dns_ready=dns_ready),
        running=True,
        ready=ready,
        control_plane_only=record.control_plane_only,
        created=record.created,
        server=record.server,
        kubeconfig=str(layout.kubeconfig),
        directory=str(layout.root),
        api_ready=api_ready,
        node_ready=node_ready,
        dns_ready=dns_ready,
        devices=_devices(node),
        image_store=str(store_path(record.store)) if record.store is not None else "",
        image_store_bytes=size_of(record.store) if record.store is not None else 0,
        images=_images(record, layout),
        parts=parts,
    )


def describe(*, api_ready: bool, node_ready: bool | None, dns_ready: bool | None) -> str:
    """Say in one sentence what works and what to look at."""
    if not api_ready:
        return "The API server does not answer. Look at: mm-devcluster logs kube-apiserver"
    if node_ready is None:
        return "Ready: API server and controllers answer (no node, so pods stay Pending)."
    if not node_ready:
        return "The node is not ready for pods. Look at: mm-devcluster logs kubelet"
    if not dns_ready:
        return "The node is ready, cluster DNS is not: Service names do not resolve yet."
    return "Ready: the node runs pods and cluster DNS answers."


def _parts(record: Record, layout: Layout) -> tuple[PartStatus, ...]:
    try:
        listed: dict[str, Any] = json.loads(layout.supervisor_state.read_text())
    except FileNotFoundError:
        return ()
    outside = (
        namespace_pids(record.supervisor.pid)
        if record.supervisor is not None and not record.control_plane_only
        else {}
    )
    alive = record.alive
    addresses = _addresses(record)
    found = []
    for name, part in listed.items():
        pid: int | None = part["pid"] if alive else None
        if pid is not None and not record.control_plane_only:
            pid = outside.get(pid)
        found.append(
            PartStatus(
                name=name,
                running=pid is not None,
                pid=pid,
                since=part["started"],
                restarts=part["restarts"],
                exit_code=part["exitCode"],
                rss_bytes=resident_bytes(pid) if pid is not None else 0,
                address=addresses.get(name, ""),
            )
        )
    return tuple(found)


def _addresses(record: Record) -> dict[str, str]:
    if record.control_plane_only:
        ports, host = ports_of(record.slot), "127.0.0.1"
        inside = ""
    else:
        ports, host = NODE_PORTS, network_of(record.slot, record.ip_family).node_host
        inside = " in the node"
    return {
        "etcd": f"127.0.0.1:{ports.etcd}{inside}",
        "kube-apiserver": f"{host}:{ports.apiserver}",
        "kube-controller-manager": f"127.0.0.1:{ports.controller_manager}{inside}",
        "kube-scheduler": f"127.0.0.1:{ports.scheduler}{inside}",
        **({} if record.control_plane_only else {"kubelet": f"{host}:10250"}),
    }


def _devices(node: dict[str, Any]) -> dict[str, str]:
    offered: dict[str, str] = node.get("status", {}).get("allocatable", {})
    return {name: count for name, count in offered.items() if "/" in name}


def _images(record: Record, layout: Layout) -> tuple[str, ...]:
    if record.control_plane_only:
        return ()
    try:
        listed = Containerd(layout.containerd_socket).images()
    except DevClusterError:
        return ()
    # containerd lists each image by digest too; people know it by its reference.
    return tuple(sorted(name for name in listed if "@" not in name and "sha256:" not in name))


def _object_at(api: Api, path: str) -> dict[str, Any]:
    try:
        return api.get(path)
    except ApiError:
        return {}
