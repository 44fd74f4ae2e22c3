"""Start, stop and feed clusters: the Python interface that the demo and the tests use."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mm_devcluster import packages
from mm_devcluster.binaries import (
    CONTROL_PLANE,
    DEVICE_PLUGIN,
    NODE,
    Progress,
    ensure_binaries,
)
from mm_devcluster.errors import (
    AlreadyRunningError,
    DevClusterError,
    MissingRequirementsError,
    NotRunningError,
)
from mm_devcluster.images.load import Containerd, Loaded
from mm_devcluster.images.oci import Image
from mm_devcluster.launch import remove, spawn, stop
from mm_devcluster.layout import Layout
from mm_devcluster.locks import acquire, delete, remove_empty
from mm_devcluster.node.mountpoints import remove_mountpoints
from mm_devcluster.node.store import purge_store
from mm_devcluster.options import ClusterOptions, HostGpus
from mm_devcluster.paths import cluster_dir, state_dir
from mm_devcluster.preflight import missing_for_node
from mm_devcluster.record import Record, known_clusters
from mm_devcluster.slots import tidy_slot
from mm_devcluster.start import start_control_plane, start_full_cluster
from mm_devcluster.status import ClusterStatus, observe_status

__all__ = [
    "ClusterInfo",
    "ClusterOptions",
    "down",
    "image_digests",
    "load_image",
    "restart_part",
    "status",
    "up",
]


@dataclass(frozen=True)
class ClusterInfo:
    """How to reach a running cluster."""

    name: str
    kubeconfig: Path
    """The admin's; works from this machine."""
    kubectl: Path
    server: str
    """``https://host:port`` of the API server."""
    directory: Path
    """Private files and logs of the cluster."""
    control_plane_only: bool


def up(options: ClusterOptions, on_stage: Progress | None = None) -> ClusterInfo:
    """Start a cluster and wait until it works; when it runs already, return it.

    Args:
        options: What to start.
        on_stage: Receives each stage and a detail for people.

    Raises:
        MissingRequirementsError: The machine lacks something; the message lists all of it.
        AlreadyRunningError: One of that name runs with other options.
        PartFailedError: A part did not come up; everything was taken down again.
        DevClusterError: Anything else that the user can change.
    """
    report = on_stage or _ignore
    layout = Layout(cluster_dir(options.name))
    with _locked(options.name):
        record = Record.read(layout)
        if record is not None and record.alive:
            _compare(record, options)
            return _info(record, ensure_binaries(("kubectl",), report))
        _require(options, report)
        binaries = ensure_binaries(_programs(options), report)
        if record is not None:
            _take_down(record, layout)
        # Whatever else lies there has no record, so nothing hangs on it.
        shutil.rmtree(layout.root, ignore_errors=True)
        started = time.time()
        deadline = time.monotonic() + options.timeout
        start = start_control_plane if options.control_plane_only else start_full_cluster
        try:
            record = start(options, layout, binaries, deadline, report)
        except BaseException:
            _keep_logs(layout)
            half_made = Record.read(layout)
            if half_made is not None:
                _take_down(half_made, layout)
            raise
        if options.owner_pid is not None:
            _guard(record, options.owner_pid)
        report("ready", f"after {time.time() - started:.1f} s")
        return _info(record, binaries)


def down(name: str, *, purge_images: bool = False) -> bool:
    """Stop a cluster and remove everything it made on the machine, except its images.

    Args:
        name: The cluster.
        purge_images: Delete the images that it used, too.

    Returns:
        Whether there was anything to stop.

    Raises:
        PartFailedError: A process could not be ended.
    """
    layout = Layout(cluster_dir(name))
    with _locked(name):
        shutil.rmtree(_failed(name), ignore_errors=True)
        remove_empty(_failed(name).parent, state_dir())
        record = Record.read(layout)
        if record is None:
            return False
        _take_down(record, layout)
        if purge_images and record.store is not None:
            purge_store(record.store)
    return True


def status(name: str) -> ClusterStatus:
    """Look at a cluster, running or not."""
    return observe_status(name, Layout(cluster_dir(name)))


def info(name: str) -> ClusterInfo:
    """Return how to reach a running cluster.

    Raises:
        NotRunningError: It does not run.
    """
    return _info(_running(name), ensure_binaries(("kubectl",)))


def load_image(name: str, source: Path | Image) -> Loaded:
    """Load an image into a cluster's node: an OCI archive, or an image in parts.

    Layers that the node holds are not sent again.

    Raises:
        NotRunningError: The cluster does not run.
        DevClusterError: The archive is none, or containerd refused it.
    """
    containerd = _containerd(name)
    return containerd.load(source) if isinstance(source, Image) else containerd.load_archive(source)


def restart_part(name: str, part: str) -> None:
    """Kill one part of a cluster; its supervisor starts it again within two seconds.

    A kubelet that starts again also registers a node that was deleted.

    Raises:
        NotRunningError: The cluster does not run.
        DevClusterError: It has no such part, or the part does not run now.
    """
    _running(name)
    pids = {item.name: item.pid for item in status(name).parts}
    pid = pids.get(part)
    if pid is None:
        raise DevClusterError(f"{part!r} does not run; the parts are: {', '.join(pids)}")
    os.kill(pid, signal.SIGKILL)


def image_digests(name: str) -> frozenset[str]:
    """Return the digest of every blob that a cluster's node holds.

    Raises:
        NotRunningError: The cluster does not run.
    """
    return _containerd(name).digests()


def _containerd(name: str) -> Containerd:
    record = _running(name)
    if record.control_plane_only:
        raise DevClusterError(
            f"cluster {name!r} has no node to load images into: "
            "start one without --control-plane-only"
        )
    return Containerd(Layout(cluster_dir(name)).containerd_socket)


def _running(name: str) -> Record:
    record = Record.read(Layout(cluster_dir(name)))
    if record is None or not record.alive:
        raise NotRunningError(name)
    return record


def _info(record: Record, binaries: dict[str, Path]) -> ClusterInfo:
    layout = Layout(cluster_dir(record.name))
    return ClusterInfo(
        name=record.name,
        kubeconfig=layout.kubeconfig,
        kubectl=binaries["kubectl"],
        server=record.server,
        directory=layout.root,
        control_plane_only=record.control_plane_only,
    )


def _compare(record: Record, options: ClusterOptions) -> None:
    if record.control_plane_only != options.control_plane_only:
        kind = "without a node" if record.control_plane_only else "with a node"
        raise AlreadyRunningError(record.name, f"it was started {kind}")
    if record.ip_family != options.ip_family and not record.control_plane_only:
        raise AlreadyRunningError(record.name, f"its addresses are {record.ip_family}")
    devices = str(options.gpu or "")
    if devices and devices != record.gpu:
        raise AlreadyRunningError(record.name, f"its devices are {record.gpu or 'none'!r}")


def _require(options: ClusterOptions, report: Progress) -> None:
    """Collect everything that is missing before refusing, so that one message says it all."""
    wanted = (
        packages.CONTROL_PLANE_PACKAGES if options.control_plane_only else packages.NODE_PACKAGES
    )
    if options.install_packages and os.geteuid() == 0:
        packages.install(wanted, report)
    missing = packages.describe(packages.missing_packages(wanted))
    if not options.control_plane_only:
        missing = (*missing_for_node(options.name), *missing)
    if missing:
        raise MissingRequirementsError(missing)


def _programs(options: ClusterOptions) -> tuple[str, ...]:
    if options.control_plane_only:
        return CONTROL_PLANE
    return (*NODE, *DEVICE_PLUGIN.programs) if isinstance(options.devices, HostGpus) else NODE


def _take_down(record: Record, layout: Layout) -> None:
    stop(record)
    remove(record, layout)
    notes = state_dir() / "mountpoints"
    others = (Record.read(Layout(cluster_dir(name))) for name in known_clusters(state_dir()))
    # A mount point is shared by all nodes: the last one out removes it.
    if not any(other is not None and not other.control_plane_only for other in others):
        remove_mountpoints(notes)
    tidy_slot(record.slot, with_node=not record.control_plane_only)
    remove_empty(state_dir() / "clusters", state_dir())


def _guard(record: Record, owner_pid: int) -> None:
    layout = Layout(cluster_dir(record.name))
    command = [sys.executable, "-P", "-m", "mm_devcluster.guard", "--name", record.name]
    watched = ["--owner-pid", str(owner_pid), "--created", repr(record.created)]
    spawn([*command, *watched], layout.logs / "guard.log")


def _keep_logs(layout: Layout) -> None:
    """Keep the logs of a start that failed, so that they can be read after it was removed."""
    kept = _failed(layout.root.name)
    if layout.logs.is_dir():
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(kept, ignore_errors=True)
        shutil.move(layout.logs, kept)


def _failed(name: str) -> Path:
    return state_dir() / "failed" / name


@contextmanager
def _locked(name: str) -> Iterator[None]:
    """Let one command at a time change a cluster; others wait."""
    path = state_dir() / "locks" / f"{name}.lock"
    descriptor = acquire(path, wait=True)
    assert descriptor is not None  # noqa: S101 - it waited
    try:
        yield
    finally:
        delete(path, descriptor, state_dir())


def _ignore(_stage: str, _detail: str) -> None:
    """Receive progress that is not shown."""
