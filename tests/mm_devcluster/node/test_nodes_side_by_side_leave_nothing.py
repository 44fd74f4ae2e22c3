"""A second node beside the first has devices and images of its own, and goes without a trace."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mm_devcluster.addresses import network_of
from mm_devcluster.cluster import ClusterInfo, ClusterOptions, down, load_image, status, up
from mm_devcluster.errors import DevClusterError
from mm_devcluster.layout import Layout
from mm_devcluster.node.cgroups import CGROUPS, cgroup_processes
from mm_devcluster.node.store import store_path
from mm_devcluster.paths import cluster_dir
from mm_devcluster.processes import find_process
from mm_devcluster.record import Record
from support.clusters import apply, kubectl, read
from support.eventually import eventually
from support.probe_pods import await_phase, build_probe_pod, load_probe, run_probe

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

NAME = f"tests-b-{os.getpid()}"
GPU = "nvidia.com/gpu=2,product=NVIDIA-H100-80GB-HBM3"
ONE_GPU = {"limits": {"nvidia.com/gpu": "1"}}
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def traces(record: Record) -> list[str]:
    """List everything on this machine, apart from processes, that names a cluster."""
    network = network_of(record.slot)
    words = (
        *(str(piece) for piece in (network.link, network.services, network.pods)),
        network.host_interface,
        record.cgroup,
        str(cluster_dir(record.name)),
        f"{store_path(record.store or 0)}/",
    )
    lines = [
        *output("ip", "link").splitlines(),
        *output("ip", "-4", "route", "show", "table", "all").splitlines(),
        *output("/usr/sbin/iptables-legacy-save").splitlines(),
        *output("/usr/sbin/iptables-nft-save").splitlines(),
        *Path("/proc/self/mounts").read_text().splitlines(),
        *(str(path) for path in CGROUPS.rglob("mm-devcluster-*")),
    ]
    return [line for line in lines if any(word in line for word in words)]


def running(name: str) -> Record:
    record = Record.read(Layout(cluster_dir(name)))
    assert record.alive
    return record


@pytest.mark.slow
def test_a_second_cluster_works_and_goes_without_a_trace(node_cluster: ClusterInfo) -> None:
    """Fake devices limit what is scheduled; images outlive the cluster; nothing else does."""
    options = ClusterOptions(name=NAME, gpu=GPU, owner_pid=os.getpid())
    try:
        second = up(options)
        load_probe(second)
        before = running(NAME)
        assert second.server != node_cluster.server
        for name in ("gpu0", "gpu1"):
            apply(second, gpu_pod(name))
            await_phase(second, name, "default", "Running")
        apply(second, gpu_pod("gpu2"))
        reason = eventually(lambda: scheduling_message(second, "gpu2"))
        pods = cgroup_processes(before.cgroup)
        seen = traces(before)
        # Killed with pods running: the hardest moment.
        down(NAME)
        left = traces(before)
        third = up(options)
        after = running(NAME)
        # The image was loaded by the cluster before this one.
        pod = run_probe(third, "say", "default", "say", "hello", "0")
    finally:
        down(NAME)
    assert "Insufficient nvidia.com/gpu" in reason
    assert len(pods) >= 4  # two pods, each with its pause container; and DNS
    assert [pid for pid in pods if find_process(pid) is not None] == []
    assert len(seen) >= 4  # interface, two routes, cgroups
    assert left == []
    assert after.store == before.store
    assert pod["status"]["phase"] == "Succeeded"
    assert (status(NAME).running, status(node_cluster.name).ready) == (False, True)


def gpu_pod(name: str) -> dict[str, Any]:
    return build_probe_pod(name, "default", "sleep", resources=ONE_GPU, nodeSelector=H100)


def scheduling_message(cluster: ClusterInfo, name: str) -> str:
    """Return why a pod is not scheduled; empty while the scheduler has not looked."""
    pod = read(cluster, "pod", name)
    conditions = {item["type"]: item for item in pod["status"].get("conditions", [])}
    return str(conditions.get("PodScheduled", {}).get("message", ""))


@pytest.mark.parametrize("content", [b"", b"not a tar", None], ids=["empty", "no-tar", "no-file"])
def test_what_is_no_archive_is_refused(
    node_cluster: ClusterInfo, tmp_path: Path, content: bytes | None
) -> None:
    archive = tmp_path / "image.tar"
    if content is not None:
        archive.write_bytes(content)
    with pytest.raises(DevClusterError, match="is not an OCI archive"):
        load_image(node_cluster.name, archive)


def test_kubectl_reaches_the_first_cluster_all_along(node_cluster: ClusterInfo) -> None:
    assert kubectl(node_cluster, "get", "nodes", "-o=name") == "node/node1\n"
