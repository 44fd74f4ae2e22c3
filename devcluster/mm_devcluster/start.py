"""The start of a cluster, step by step: lease, certificates, files, processes, readiness."""

import subprocess
import time
from dataclasses import replace
from pathlib import Path

from mm_devcluster.addresses import NODE_PORTS, Address, network_of, ports_of
from mm_devcluster.binaries import Progress
from mm_devcluster.blueprint import Blueprint, GpuNode, build_control_plane, build_full_cluster
from mm_devcluster.bringup import Bringup, await_api, load_builtin_images, set_up_node
from mm_devcluster.certificates import plan_certificates
from mm_devcluster.config.kubeconfig import build_kubeconfig
from mm_devcluster.launch import launch_supervisor
from mm_devcluster.layout import Layout
from mm_devcluster.node.cgroups import cgroup_name, make_cgroup
from mm_devcluster.node.gpus import RESOURCE, gpu_labels, read_gpus, with_driver
from mm_devcluster.node.link import make_link
from mm_devcluster.node.mountpoints import make_mountpoints
from mm_devcluster.node.store import lease_store, store_path
from mm_devcluster.openssl import issue
from mm_devcluster.options import ClusterOptions, FakeDevices
from mm_devcluster.paths import driver_dir, state_dir
from mm_devcluster.record import Record
from mm_devcluster.slots import lease_slot, network_is_free, ports_are_free, slots_dir

CLIENTS = ("admin", "controller-manager", "scheduler", "kubelet", "kube-proxy")


def start_control_plane(
    options: ClusterOptions,
    layout: Layout,
    binaries: dict[str, Path],
    deadline: float,
    report: Progress,
) -> Record:
    """Start API server and controllers on loopback, and wait until they work."""
    slot = lease_slot(slots_dir(with_node=False), ports_are_free)
    try:
        ports = ports_of(slot.number)
        server = f"https://127.0.0.1:{ports.apiserver}"
        record = _begin(
            layout,
            Record(
                name=options.name,
                slot=slot.number,
                control_plane_only=True,
                gpu="",
                server=server,
                created=time.time(),
            ),
        )
        network = network_of(slot.number)
        _certify(layout, record, (network.api_service_ip,), server, report)
        blueprint = build_control_plane(layout, network, ports, binaries)
        _write(layout, blueprint)
        report("start", "starting etcd, API server and controllers")
        launched, supervisor = launch_supervisor(
            layout, in_namespaces=False, kept=(slot.descriptor,)
        )
    finally:
        slot.release()
    record = replace(record, launched=launched, supervisor=supervisor)
    record.write(layout)
    await_api(Bringup(record, layout, deadline, report))
    return record


def start_full_cluster(
    options: ClusterOptions,
    layout: Layout,
    binaries: dict[str, Path],
    deadline: float,
    report: Progress,
) -> Record:
    """Start a cluster with a node in namespaces of its own, and wait until it works."""
    family = options.ip_family
    devices, gpus = _devices(options)
    slot = lease_slot(
        slots_dir(with_node=True), lambda number: network_is_free(network_of(number, family))
    )
    store = lease_store()
    try:
        network = network_of(slot.number, family)
        server = f"https://{network.node_host}:{NODE_PORTS.apiserver}"
        record = _begin(
            layout,
            Record(
                name=options.name,
                slot=slot.number,
                control_plane_only=False,
                gpu=str(options.gpu or ""),
                server=server,
                created=time.time(),
                interface=network.host_interface,
                cgroup=cgroup_name(options.name),
                store=store.number,
                ip_family=family,
            ),
        )
        local = "https://127.0.0.1:6443"
        _certify(layout, record, (network.api_service_ip, network.node_ip), local, report)
        blueprint = build_full_cluster(
            layout,
            network,
            binaries,
            store=store_path(store.number),
            cgroup=record.cgroup,
            gpus=gpus,
        )
        _write(layout, blueprint)
        report("start", "starting the node and everything on it")
        make_cgroup(record.cgroup)
        make_mountpoints(layout, state_dir() / "mountpoints")
        launched, supervisor = launch_supervisor(
            layout, in_namespaces=True, kept=(slot.descriptor, store.descriptor)
        )
        record = replace(record, launched=launched, supervisor=supervisor)
        record.write(layout)
        make_link(network, supervisor.pid)
    finally:
        slot.release()
        store.release()
    bringup = Bringup(record, layout, deadline, report)
    load_builtin_images(bringup, binaries)
    api = await_api(bringup, controllers=options.await_node)
    set_up_node(bringup, api, network, devices, given=gpus is None, wait=options.await_node)
    return record


def _devices(options: ClusterOptions) -> tuple[FakeDevices, GpuNode | None]:
    """Return what the node offers, and what it needs for that when these are the machine's GPUs."""
    wanted = options.devices
    if isinstance(wanted, FakeDevices):
        return wanted, None
    driver = driver_dir()
    found = read_gpus(driver)
    printed = subprocess.run(
        ["ctr", "oci", "spec"], capture_output=True, text=True, timeout=30, check=True
    )
    offered = FakeDevices({RESOURCE: len(found) * wanted.replicas}, gpu_labels(found, wanted))
    return offered, GpuNode(wanted, driver, with_driver(printed.stdout, driver))


def _begin(layout: Layout, record: Record) -> Record:
    layout.logs.mkdir(parents=True)
    layout.config.mkdir()
    record.write(layout)
    return record


def _certify(
    layout: Layout,
    record: Record,
    addresses: tuple[Address, ...],
    local_server: str,
    report: Progress,
) -> None:
    """Issue the certificates; write the parts' kubeconfigs and the admin's."""
    report("certificates", "making the cluster's certificates")
    issue(plan_certificates(addresses), layout.pki)

    def kubeconfig(client: str, server: str) -> str:
        return build_kubeconfig(
            server,
            f"mm-{record.name}",
            authority=(layout.pki / "ca.crt").read_bytes(),
            certificate=(layout.pki / f"{client}.crt").read_bytes(),
            key=(layout.pki / f"{client}.key").read_bytes(),
        )

    for client in CLIENTS:
        path = Path(layout.part_kubeconfig(client))
        path.touch(mode=0o600)
        path.write_text(kubeconfig(client, local_server))
    layout.kubeconfig.touch(mode=0o600)
    layout.kubeconfig.write_text(kubeconfig("admin", record.server))


def _write(layout: Layout, blueprint: Blueprint) -> None:
    for path, content in blueprint.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    blueprint.supervisor.write(layout.supervisor_spec)
