"""A second node beside the first has devices and images of its own, and goes without a trace."""

import os
import subprocess
from pathlib import Path

import pytest

from mm_devcluster.cluster import ClusterInfo, ClusterOptions, down, load_image, status, up
from mm_devcluster.errors import DevClusterError
from mm_devcluster.layout import Layout
from mm_devcluster.node.cgroups import CGROUPS, cgroup_name
from mm_devcluster.paths import cluster_dir
from mm_devcluster.record import Record
from support.clusters import apply, eventually, kubectl, kubectl_json, namespace
from support.probe_pods import await_phase, build_probe_pod, load_probe, run_probe

pytestmark = pytest.mark.e2e

NAME = f"tests-b-{os.getpid()}"
GPU = "nvidia.com/gpu=2,product=NVIDIA-H100-80GB-HBM3"
ONE_GPU = {"limits": {"nvidia.com/gpu": "1"}}
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def output(*command: str) -> str:
    """Run a command of this machine and return what it prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout


def traces() -> dict[str, list[str]]:
    """List what clusters could leave on this machine, apart from processes."""
    rules = [output(f"/usr/sbin/iptables-{kind}-save") for kind in ("legacy", "nft")]
    return {
        "interfaces": sorted(path.name for path in Path("/sys/class/net").iterdir()),
        "routes": output("ip", "-4", "route", "show", "table", "all").splitlines(),
        "rules": [line for text in rules for line in text.splitlines() if line.startswith("-A")],
        "mounts": Path("/proc/self/mounts").read_text().splitlines(),
        "cgroups": [str(path) for path in CGROUPS.rglob("mm-devcluster-*")],
    }


def test_a_second_cluster_works_and_goes_without_a_trace(node_cluster: ClusterInfo) -> None:
    """Fake devices limit what is scheduled; images outlive the cluster; nothing else does."""
    before = traces()
    options = ClusterOptions(name=NAME, gpu=GPU, owner_pid=os.getpid())
    try:
        second = up(options)
        load_probe(second)
        assert second.server != node_cluster.server
        with namespace(second, "gpus") as space:
            for index in range(3):
                apply(
                    second,
                    build_probe_pod(
                        f"gpu{index}", space, "sleep", resources=ONE_GPU, nodeSelector=H100
                    ),
                )
                if index < 2:
                    await_phase(second, f"gpu{index}", space, "Running")
            reason = eventually(lambda: scheduling_message(second, "gpu2", space))
            assert "Insufficient nvidia.com/gpu" in reason
            # Killed with pods running and volumes mounted: the hardest moment.
            record = Record.read(Layout(cluster_dir(NAME)))
            assert record is not None
            assert record.supervisor is not None
            inside = cgroup_pids(NAME)
            assert len(inside) >= 3
            down(NAME)
        store_was = record.store
    finally:
        down(NAME)
    assert not record.supervisor.alive
    assert [pid for pid in inside if Path(f"/proc/{pid}").exists()] == []
    assert traces() == before
    assert not cluster_dir(NAME).exists()
    assert status(node_cluster.name).ready
    third = up(options)
    try:
        again = Record.read(Layout(cluster_dir(NAME)))
        assert again is not None
        assert again.store == store_was
        with namespace(third, "again") as space:
            # The image was loaded by the cluster before this one.
            pod = run_probe(third, "say", space, "say", "hello", "0")
            assert pod["status"]["phase"] == "Succeeded"
    finally:
        down(NAME, purge_images=True)
    assert traces() == before


def cgroup_pids(name: str) -> list[int]:
    """Return the processes of a cluster's pods."""
    listings = (CGROUPS / "memory" / cgroup_name(name)).rglob("cgroup.procs")
    return [int(pid) for listing in listings for pid in listing.read_text().split()]


def scheduling_message(cluster: ClusterInfo, name: str, space: str) -> str:
    """Return why a pod is not scheduled; empty while the scheduler has not looked."""
    pod = kubectl_json(cluster, "get", "pod", name, "-n", space)
    conditions = {item["type"]: item for item in pod["status"].get("conditions", [])}
    return str(conditions.get("PodScheduled", {}).get("message", ""))


@pytest.mark.parametrize("content", [b"", b"not a tar", None], ids=["empty", "no-tar", "no-file"])
def test_what_is_no_archive_is_refused(
    node_cluster: ClusterInfo, tmp_path: Path, content: bytes | None
) -> None:
    """The message names the file and what it should be."""
    archive = tmp_path / "image.tar"
    if content is not None:
        archive.write_bytes(content)
    with pytest.raises(DevClusterError, match="is not an OCI archive"):
        load_image(node_cluster.name, archive)


def test_kubectl_reaches_the_first_cluster_all_along(node_cluster: ClusterInfo) -> None:
    """A neighbour's end does not touch it."""
    assert kubectl(node_cluster, "get", "nodes", "-o=name") == "node/node1\n"
