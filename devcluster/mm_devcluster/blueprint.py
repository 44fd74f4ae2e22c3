"""The entire cluster as values: every file to write and every part to run, before any of it is.

Computed from options, addresses and paths; ``files`` maps a path to its content.
"""

from dataclasses import dataclass
from pathlib import Path

from mm_devcluster.addresses import NODE_PORTS, Network, Ports
from mm_devcluster.api import ready_path
from mm_devcluster.config import containerd, flags, kubelet
from mm_devcluster.layout import Layout
from mm_devcluster.node.gpus import SOCKET, plugin_config
from mm_devcluster.node.mountpoints import private_mounts
from mm_devcluster.options import HostGpus
from mm_devcluster.supervisor.spec import Gate, NodeSetup, Part, StoreCleaning, SupervisorSpec

# Advertised by a control plane without a node. Nothing is published under it; it only must not
# be loopback, which the API server refuses. 192.0.2.0/24 is reserved for documentation (RFC 5737).
UNUSED_ADDRESS = "192.0.2.1"

MADE_LAST = (
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
)
"""Checks of what an API server makes last, in a second: rights that kubelets and admins have
without."""


@dataclass(frozen=True)
class Blueprint:
    """What ``up`` writes and starts."""

    files: dict[Path, str]
    supervisor: SupervisorSpec


@dataclass(frozen=True)
class GpuNode:
    """What a node with the machine's GPUs has beside any other."""

    sharing: HostGpus
    driver: Path
    """Folder of NVIDIA's driver."""
    container: str
    """The OCI specification that containers start from."""


def build_control_plane(
    layout: Layout, network: Network, ports: Ports, binaries: dict[str, Path]
) -> Blueprint:
    """Describe a cluster without a node, on loopback."""
    plane = flags.ControlPlane(layout, ports, UNUSED_ADDRESS, network.services, None, binaries)
    parts = _control_plane_parts(plane)
    return Blueprint({}, SupervisorSpec(str(layout.supervisor_state), parts))


def build_full_cluster(
    layout: Layout,
    network: Network,
    binaries: dict[str, Path],
    *,
    store: Path,
    cgroup: str,
    gpus: GpuNode | None = None,
) -> Blueprint:
    """Describe a cluster with one node, all of it in the node's namespaces."""
    container = layout.config / "container.json" if gpus else None
    plane = flags.ControlPlane(
        layout, NODE_PORTS, str(network.node_ip), network.services, network.pods, binaries
    )
    files = {
        layout.config / "containerd.toml": containerd.containerd_config(layout, store, container),
        layout.config / "cleaning.toml": containerd.cleaning_config(layout, store),
        layout.config / "cni" / "10-pods.conflist": containerd.cni_config(network),
        layout.config / "kubelet.json": kubelet.kubelet_config(layout, network, cgroup),
        layout.config / "kube-proxy.json": kubelet.kube_proxy_config(layout, network),
        layout.config / "resolv.conf": "",
    }
    if gpus and container:
        files[container] = gpus.container
        files[layout.device_plugin] = plugin_config(gpus.sharing)
    ready = _api_ready(plane)
    # A node that registers before its device plugin reports the devices with its next status, after
    # ten seconds (the kubelet's default of nodeStatusUpdateFrequency).
    early = ready if gpus else _api_ready(plane, *MADE_LAST)
    parts = [
        _part(layout, "containerd", _containerd_arguments(layout)),
        _part(
            layout,
            "kubelet",
            kubelet.kubelet_arguments(layout, network, str(binaries["kubelet"])),
            early,
        ),
        *_control_plane_parts(plane),
        _part(
            layout,
            "kube-proxy",
            [str(binaries["kube-proxy"]), f"--config={layout.config / 'kube-proxy.json'}"],
            ready,
        ),
        *_device_plugin_parts(layout, binaries, gpus),
    ]
    node = NodeSetup(
        binds={point: str(private) for point, private in private_mounts(layout).items()},
        interface=network.node_interface,
        address=f"{network.node_ip}/{network.link.prefixlen}",
        gateway=str(network.host_ip),
        containerd_socket=str(layout.containerd_socket),
        xtables=str(layout.root / "xtables"),
    )
    cleaning = StoreCleaning(
        str(store), str(layout.config / "cleaning.toml"), str(layout.cleaning_socket)
    )
    return Blueprint(
        files,
        SupervisorSpec(
            str(layout.supervisor_state), parts, node, cleaning, volumes=str(layout.volumes)
        ),
    )


def _control_plane_parts(plane: flags.ControlPlane) -> list[Part]:
    layout = plane.layout
    ready = _api_ready(plane)
    etcd = Gate("tcp", f"127.0.0.1:{plane.ports.etcd}")
    return [
        _part(layout, "etcd", flags.etcd_arguments(plane)),
        _part(layout, "kube-apiserver", flags.apiserver_arguments(plane), etcd),
        _part(layout, "kube-controller-manager", flags.controller_manager_arguments(plane), ready),
        _part(layout, "kube-scheduler", flags.scheduler_arguments(plane), ready),
    ]


def _device_plugin_parts(
    layout: Layout, binaries: dict[str, Path], gpus: GpuNode | None
) -> list[Part]:
    if gpus is None:
        return []
    program = [str(binaries["nvidia-device-plugin"]), f"--config-file={layout.device_plugin}"]
    # It opens NVML by its name.
    command = ["/usr/bin/env", f"LD_LIBRARY_PATH={gpus.driver / 'lib64'}", *program]
    return [_part(layout, "nvidia-device-plugin", command, Gate("unix", SOCKET))]


def _containerd_arguments(layout: Layout) -> list[str]:
    return ["containerd", "--config", str(layout.config / "containerd.toml")]


def _api_ready(plane: flags.ControlPlane, *without: str) -> Gate:
    url = f"https://127.0.0.1:{plane.ports.apiserver}{ready_path(without)}"
    return Gate("https", url, plane.layout.certificate("ca"))


def _part(layout: Layout, name: str, arguments: list[str], gate: Gate | None = None) -> Part:
    return Part(name, arguments, str(layout.logs / f"{name}.log"), gate)
